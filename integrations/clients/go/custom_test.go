package clients

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/utils/ptr"
)

// define creates a CustomResourceDefinition of widgets, in a group that is unique to the namespace, and returns their resource.
func define(s *site) schema.GroupVersionResource {
	group := strings.ReplaceAll(s.namespace, "-", "") + ".example.com"
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	schema3 := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{
			"replicas": {Type: "integer", Minimum: ptr.To(0.0), Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
			"size":     {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"small"`)}, {Raw: []byte(`"large"`)}}},
			"parts": {
				Type: "array", XListType: ptr.To("map"), XListMapKeys: []string{"name"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"name"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"name": {Type: "string"}, "value": {Type: "string"},
					},
				}},
			},
		}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{
			"replicas": {Type: "integer"}, "selector": {Type: "string"},
		}),
	})
	definitions := apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	name := "widgets." + group
	must(definitions.Create(s.ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ShortNames: []string{"wg"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema3},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ptr.To(".status.selector"),
					},
				},
			}},
		},
	}, metav1.CreateOptions{}))
	s.Cleanup(func() { definitions.Delete(s.ctx, name, metav1.DeleteOptions{}) })
	s.until("the definition is established", func() bool {
		for _, condition := range must(definitions.Get(s.ctx, name, metav1.GetOptions{})).Status.Conditions {
			if condition.Type == apiextensionsv1.Established {
				return condition.Status == apiextensionsv1.ConditionTrue
			}
		}
		return false
	})
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	s.until("widgets are served", func() bool {
		_, err := dynamic.NewForConfigOrDie(config).Resource(resource).List(s.ctx, metav1.ListOptions{})
		return err == nil
	})
	return resource
}

func widget(resource schema.GroupVersionResource, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func TestDynamicClient(t *testing.T) {
	s := newSite(t)
	resource := define(s)
	client := dynamic.NewForConfigOrDie(config)
	widgets := client.Resource(resource).Namespace(s.namespace)
	create := func(s *site, name string, spec map[string]any) *unstructured.Unstructured {
		return must(widgets.Create(s.ctx, widget(resource, name, spec), metav1.CreateOptions{}))
	}
	s.check("a default is set", func(s *site) {
		replicas, _, _ := unstructured.NestedInt64(create(s, "default", map[string]any{}).Object, "spec", "replicas")
		equal(s, "replicas", replicas, 1)
	})
	s.check("an invalid value is refused", func(s *site) {
		_, err := widgets.Create(s.ctx, widget(resource, "invalid", map[string]any{"size": "medium"}), metav1.CreateOptions{})
		equal(s, "field", refused(s, err, apierrors.IsInvalid).ErrStatus.Details.Causes[0].Field, "spec.size")
	})
	s.check("an unknown field is pruned", func(s *site) {
		_, exists, _ := unstructured.NestedFieldNoCopy(create(s, "pruned", map[string]any{"other": "1"}).Object, "spec", "other")
		equal(s, "exists", exists, false)
	})
	s.check("the status is written separately", func(s *site) {
		created := create(s, "status", map[string]any{"size": "small"})
		ok(unstructured.SetNestedField(created.Object, int64(3), "status", "replicas"))
		ok(unstructured.SetNestedField(created.Object, "large", "spec", "size"))
		updated := must(widgets.UpdateStatus(s.ctx, created, metav1.UpdateOptions{}))
		size, _, _ := unstructured.NestedString(updated.Object, "spec", "size")
		equal(s, "size", size, "small")
		equal(s, "generation", updated.GetGeneration(), created.GetGeneration())
	})
	s.check("a merge patch changes the generation", func(s *site) {
		create(s, "patched", map[string]any{})
		patched := must(widgets.Patch(s.ctx, "patched", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}))
		equal(s, "generation", patched.GetGeneration(), 2)
	})
	s.check("a strategic merge patch is not supported", func(s *site) {
		create(s, "strategic", map[string]any{})
		_, err := widgets.Patch(s.ctx, "strategic", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
		refused(s, err, apierrors.IsUnsupportedMediaType)
	})
	s.check("an informer follows custom resources", func(s *site) {
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, s.namespace, nil)
		defer factory.Shutdown()
		seen := &recorder{}
		must(factory.ForResource(resource).Informer().AddEventHandler(seen.handlers()))
		stop := make(chan struct{})
		defer close(stop)
		factory.Start(stop)
		factory.WaitForCacheSync(stop)
		create(s, "followed", map[string]any{})
		ok(widgets.Delete(s.ctx, "followed", metav1.DeleteOptions{}))
		s.until("both events", func() bool { return seen.count("add followed") == 1 && seen.count("delete followed") == 1 })
	})
	s.check("a scale client scales custom resources", func(s *site) {
		create(s, "scaled", map[string]any{})
		discovery := discovery.NewDiscoveryClientForConfigOrDie(config)
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
		scales := must(scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discovery)))
		found := must(scales.Scales(s.namespace).Get(s.ctx, resource.GroupResource(), "scaled", metav1.GetOptions{}))
		found.Spec.Replicas = 4
		equal(s, "replicas", must(scales.Scales(s.namespace).Update(s.ctx, resource.GroupResource(), found, metav1.UpdateOptions{})).Spec.Replicas, 4)
	})
	s.check("an applied configuration merges lists by key", func(s *site) {
		apply := func(manager string, parts ...any) *unstructured.Unstructured {
			configuration := widget(resource, "applied", map[string]any{"parts": parts})
			return must(widgets.Apply(s.ctx, "applied", configuration, metav1.ApplyOptions{FieldManager: manager}))
		}
		apply("a", map[string]any{"name": "one", "value": "1"})
		apply("b", map[string]any{"name": "two", "value": "2"})
		parts, _, _ := unstructured.NestedSlice(apply("a", map[string]any{"name": "one", "value": "3"}).Object, "spec", "parts")
		equal(s, "parts", fmt.Sprint(parts), "[map[name:one value:3] map[name:two value:2]]")
	})
}

func TestDiscovery(t *testing.T) {
	s := newSite(t)
	client := discovery.NewDiscoveryClientForConfigOrDie(config)
	s.check("the version", func(s *site) {
		equal(s, "minor", must(client.ServerVersion()).Minor, "36")
	})
	s.check("groups and resources", func(s *site) {
		_, lists, err := client.ServerGroupsAndResources()
		ok(err)
		verbs := map[string]string{}
		for _, list := range lists {
			for _, resource := range list.APIResources {
				verbs[list.GroupVersion+"/"+resource.Name] = strings.Join(resource.Verbs, " ")
			}
		}
		equal(s, "pods", verbs["v1/pods"], "create delete deletecollection get list patch update watch")
		equal(s, "evictions", verbs["v1/pods/eviction"], "create")
		equal(s, "deployments", verbs["apps/v1/deployments/scale"], "get patch update")
	})
	s.check("preferred resources", func(s *site) {
		lists := must(client.ServerPreferredNamespacedResources())
		versions := map[string]string{}
		for _, list := range lists {
			for _, resource := range list.APIResources {
				versions[resource.Kind] = list.GroupVersion
			}
		}
		equal(s, "HorizontalPodAutoscaler", versions["HorizontalPodAutoscaler"], "autoscaling/v2")
	})
	s.check("a mapper finds new kinds", func(s *site) {
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
		kind := schema.GroupKind{Group: strings.ReplaceAll(s.namespace, "-", "") + ".example.com", Kind: "Widget"}
		_, err := mapper.RESTMapping(kind)
		if !meta.IsNoMatchError(err) {
			s.Fatalf("another error than expected: %v", err)
		}
		resource := define(s)
		s.until("the mapper finds it", func() bool {
			mapper.Reset()
			mapping, err := mapper.RESTMapping(kind)
			return err == nil && mapping.Resource == resource && mapping.Scope.Name() == meta.RESTScopeNameNamespace
		})
	})
	s.check("OpenAPI v3 has a document for each group version", func(s *site) {
		paths := must(client.OpenAPIV3().Paths())
		document := must(paths["apis/apps/v1"].Schema("application/json"))
		if !strings.Contains(string(document), "io.k8s.api.apps.v1.Deployment") {
			s.Fatal("no schema of Deployment")
		}
	})
	s.check("OpenAPI v2", func(s *site) {
		found := false
		for _, definition := range must(client.OpenAPISchema()).Definitions.AdditionalProperties {
			found = found || definition.Name == "io.k8s.api.core.v1.Pod"
		}
		equal(s, "a schema of Pod", found, true)
	})
}
