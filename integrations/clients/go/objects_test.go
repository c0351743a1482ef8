package clients

import (
	"context"
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

func TestWrites(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	s.check("a created object has an identity", func(s *site) {
		created := s.configMap("created", nil)
		if created.UID == "" || created.ResourceVersion == "" || created.CreationTimestamp.IsZero() {
			s.Fatalf("%+v", created.ObjectMeta)
		}
	})
	s.check("a name can exist once", func(s *site) {
		s.configMap("once", nil)
		_, err := maps.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "once"}}, metav1.CreateOptions{})
		refused(s, err, apierrors.IsAlreadyExists)
	})
	s.check("a missing object is not found", func(s *site) {
		_, err := maps.Get(s.ctx, "missing", metav1.GetOptions{})
		refused(s, err, apierrors.IsNotFound)
	})
	s.check("a stale update is a conflict", func(s *site) {
		stale := s.configMap("stale", nil)
		fresh := stale.DeepCopy()
		fresh.Data["key"] = "new"
		must(maps.Update(s.ctx, fresh, metav1.UpdateOptions{}))
		stale.Data["key"] = "old"
		_, err := maps.Update(s.ctx, stale, metav1.UpdateOptions{})
		refused(s, err, apierrors.IsConflict)
	})
	s.check("concurrent writers that retry lose nothing", func(s *site) {
		s.configMap("counted", nil)
		var writers sync.WaitGroup
		for number := range 8 {
			writers.Go(func() {
				err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
					current, err := maps.Get(s.ctx, "counted", metav1.GetOptions{})
					if err != nil {
						return err
					}
					current.Data[fmt.Sprint("writer-", number)] = "done"
					_, err = maps.Update(s.ctx, current, metav1.UpdateOptions{})
					return err
				})
				if err != nil && !apierrors.IsConflict(err) {
					s.Error(err)
				}
			})
		}
		writers.Wait()
		found := must(maps.Get(s.ctx, "counted", metav1.GetOptions{}))
		if len(found.Data) < 2 {
			s.Fatalf("%v", found.Data)
		}
	})
	s.check("an update without a change keeps the revision", func(s *site) {
		created := s.configMap("unchanged", nil)
		updated := must(maps.Update(s.ctx, created.DeepCopy(), metav1.UpdateOptions{}))
		equal(s, "revision", updated.ResourceVersion, created.ResourceVersion)
	})
	s.check("a name is generated", func(s *site) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}}
		created := must(maps.Create(s.ctx, object, metav1.CreateOptions{}))
		equal(s, "length of the name", len(created.Name), len("some-")+5)
	})
	s.check("an invalid name is refused with its field", func(s *site) {
		_, err := maps.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "No Name"}}, metav1.CreateOptions{})
		status := refused(s, err, apierrors.IsInvalid)
		equal(s, "field", status.ErrStatus.Details.Causes[0].Field, "metadata.name")
	})
	s.check("a dry run stores nothing", func(s *site) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dry"}}
		must(maps.Create(s.ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
		_, err := maps.Get(s.ctx, "dry", metav1.GetOptions{})
		refused(s, err, apierrors.IsNotFound)
	})
	s.check("an immutable object cannot be changed", func(s *site) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "immutable"}, Immutable: ptr.To(true)}
		created := must(maps.Create(s.ctx, object, metav1.CreateOptions{}))
		created.Data = map[string]string{"key": "new"}
		_, err := maps.Update(s.ctx, created, metav1.UpdateOptions{})
		refused(s, err, apierrors.IsInvalid)
	})
	s.check("unknown fields are errors of strict writers", func(s *site) {
		body := []byte(`{"metadata":{"name":"strict"},"unknown":1}`)
		err := client.CoreV1().RESTClient().Post().Namespace(s.namespace).Resource("configmaps").
			Param("fieldValidation", "Strict").Body(body).Do(s.ctx).Error()
		refused(s, err, apierrors.IsBadRequest)
	})
	s.check("unknown fields are warnings otherwise", func(s *site) {
		warnings := &warnings{}
		warned := rest.CopyConfig(config)
		warned.WarningHandler = warnings
		body := []byte(`{"metadata":{"name":"warned"},"unknown":1}`)
		ok(kubernetes.NewForConfigOrDie(warned).CoreV1().RESTClient().Post().Namespace(s.namespace).Resource("configmaps").
			Param("fieldValidation", "Warn").Body(body).Do(s.ctx).Error())
		equal(s, "warnings", fmt.Sprint(warnings.texts), `[unknown field "unknown"]`)
	})
}

type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func TestPatches(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	patch := func(s *site, name string, kind types.PatchType, body string) (*corev1.ConfigMap, error) {
		return maps.Patch(s.ctx, name, kind, []byte(body), metav1.PatchOptions{})
	}
	s.check("a merge patch sets and removes keys", func(s *site) {
		s.configMap("merge", nil)
		patched := must(patch(s, "merge", types.MergePatchType, `{"data":{"key":null,"other":"1"}}`))
		equal(s, "data", fmt.Sprint(patched.Data), "map[other:1]")
	})
	s.check("a JSON patch whose test fails changes nothing", func(s *site) {
		s.configMap("json", nil)
		_, err := patch(s, "json", types.JSONPatchType, `[{"op":"test","path":"/data/key","value":"x"},{"op":"remove","path":"/data/key"}]`)
		refused(s, err, apierrors.IsInvalid)
		equal(s, "value", must(maps.Get(s.ctx, "json", metav1.GetOptions{})).Data["key"], "value")
	})
	s.check("a patch with an old revision is a conflict", func(s *site) {
		s.configMap("old", nil)
		_, err := patch(s, "old", types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`)
		refused(s, err, apierrors.IsConflict)
	})
	s.check("a patch of a missing object is not found", func(s *site) {
		_, err := patch(s, "missing", types.MergePatchType, `{}`)
		refused(s, err, apierrors.IsNotFound)
	})
	s.check("a strategic merge patch merges containers by name", func(s *site) {
		pods := client.CoreV1().Pods(s.namespace)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "strategic"}, Spec: podSpec("image:1")}
		must(pods.Create(s.ctx, pod, metav1.CreateOptions{}))
		body := []byte(`{"spec":{"containers":[{"name":"main","image":"image:2"}]}}`)
		patched := must(pods.Patch(s.ctx, "strategic", types.StrategicMergePatchType, body, metav1.PatchOptions{}))
		equal(s, "containers", len(patched.Spec.Containers), 1)
		equal(s, "image", patched.Spec.Containers[0].Image, "image:2")
		equal(s, "policy", string(patched.Spec.Containers[0].TerminationMessagePolicy), "File")
	})
}

func TestDeletions(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	owned := func(s *site, name string) *corev1.ConfigMap {
		owner := s.configMap(name, nil)
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name + "-child",
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: ptr.To(true),
			}},
		}}
		must(maps.Create(s.ctx, child, metav1.CreateOptions{}))
		return owner
	}
	gone := func(s *site, name string) {
		s.until(name+" is gone", func() bool {
			_, err := maps.Get(s.ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	s.check("a deletion of another uid is a conflict", func(s *site) {
		s.configMap("precondition", nil)
		other := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}
		refused(s, maps.Delete(s.ctx, "precondition", other), apierrors.IsConflict)
	})
	s.check("dependents of a deleted object are collected", func(s *site) {
		owned(s, "background")
		ok(maps.Delete(s.ctx, "background", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
		gone(s, "background-child")
	})
	s.check("foreground deletion removes dependents first", func(s *site) {
		owned(s, "foreground")
		ok(maps.Delete(s.ctx, "foreground", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
		gone(s, "foreground")
		gone(s, "foreground-child")
	})
	s.check("orphans stay", func(s *site) {
		owned(s, "orphan")
		ok(maps.Delete(s.ctx, "orphan", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}))
		gone(s, "orphan")
		s.until("the child has no owner", func() bool {
			return len(must(maps.Get(s.ctx, "orphan-child", metav1.GetOptions{})).OwnerReferences) == 0
		})
	})
	s.check("a finalizer delays the deletion", func(s *site) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "finalized", Finalizers: []string{"example.com/check"}}}
		must(maps.Create(s.ctx, object, metav1.CreateOptions{}))
		ok(maps.Delete(s.ctx, "finalized", metav1.DeleteOptions{}))
		found := must(maps.Get(s.ctx, "finalized", metav1.GetOptions{}))
		if found.DeletionTimestamp == nil {
			s.Fatal("no deletion timestamp")
		}
		found.Finalizers = nil
		must(maps.Update(s.ctx, found, metav1.UpdateOptions{}))
		gone(s, "finalized")
	})
	s.check("a collection is deleted by its labels", func(s *site) {
		s.configMap("collected", map[string]string{"collection": "yes"})
		s.configMap("kept", map[string]string{"collection": "no"})
		ok(maps.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "collection=yes"}))
		gone(s, "collected")
		must(maps.Get(s.ctx, "kept", metav1.GetOptions{}))
	})
}

func TestSubresources(t *testing.T) {
	s := newSite(t)
	deployments := client.AppsV1().Deployments(s.namespace)
	labels := map[string]string{"app": "web"}
	deployment := must(deployments.Create(s.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Paused: true, Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("image")},
		},
	}, metav1.CreateOptions{}))
	s.check("defaults are set", func(s *site) {
		equal(s, "strategy", deployment.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		equal(s, "restart policy", deployment.Spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	})
	s.check("scale changes the replicas", func(s *site) {
		scale := must(deployments.GetScale(s.ctx, "web", metav1.GetOptions{}))
		equal(s, "selector", scale.Status.Selector, "app=web")
		ok(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			scale := must(deployments.GetScale(s.ctx, "web", metav1.GetOptions{}))
			scale.Spec = autoscalingv1.ScaleSpec{Replicas: 3}
			_, err := deployments.UpdateScale(s.ctx, "web", scale, metav1.UpdateOptions{})
			return err
		}))
		equal(s, "replicas", *must(deployments.Get(s.ctx, "web", metav1.GetOptions{})).Spec.Replicas, 3)
	})
	s.check("the status has an endpoint of its own", func(s *site) {
		nodes := client.CoreV1().Nodes()
		node := must(nodes.Create(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "clients-"}}, metav1.CreateOptions{}))
		defer nodes.Delete(context.Background(), node.Name, metav1.DeleteOptions{})
		s.until("the status is written", func() bool {
			found := must(nodes.Get(s.ctx, node.Name, metav1.GetOptions{}))
			found.Spec.PodCIDR = "10.9.0.0/24"
			found.Status.NodeInfo.KubeletVersion = "v1.36.0"
			written, err := nodes.UpdateStatus(s.ctx, found, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) {
				return false
			}
			equal(s, "podCIDR", must(written, err).Spec.PodCIDR, "")
			return true
		})
		equal(s, "version", must(nodes.Get(s.ctx, node.Name, metav1.GetOptions{})).Status.NodeInfo.KubeletVersion, "v1.36.0")
	})
	s.check("an update of the object keeps the status", func(s *site) {
		ok(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			found := must(deployments.Get(s.ctx, "web", metav1.GetOptions{}))
			found.Status.Replicas = 77
			updated, err := deployments.Update(s.ctx, found, metav1.UpdateOptions{})
			if err == nil && updated.Status.Replicas == 77 {
				s.Fatal("the status is changed")
			}
			return err
		}))
	})
	s.check("a pod is bound to a node", func(s *site) {
		pods := client.CoreV1().Pods(s.namespace)
		spec := podSpec("image")
		spec.SchedulerName = "none"
		must(pods.Create(s.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bound", Labels: labels}, Spec: spec}, metav1.CreateOptions{}))
		ok(pods.Bind(s.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: "some-node"},
		}, metav1.CreateOptions{}))
		found := must(pods.List(s.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=some-node"}))
		equal(s, "pods of the node", len(found.Items), 1)
	})
	s.check("a budget without disruptions left stops an eviction", func(s *site) {
		budgets := client.PolicyV1().PodDisruptionBudgets(s.namespace)
		must(budgets.Create(s.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
			},
		}, metav1.CreateOptions{}))
		pods := client.CoreV1().Pods(s.namespace)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Labels: map[string]string{"app": "guarded"}}, Spec: podSpec("image")}
		pod.Spec.NodeName = "some-node"
		created := must(pods.Create(s.ctx, pod, metav1.CreateOptions{}))
		created.Status.Phase = corev1.PodRunning
		must(pods.UpdateStatus(s.ctx, created, metav1.UpdateOptions{}))
		err := client.PolicyV1().Evictions(s.namespace).Evict(s.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "guarded"}})
		refused(s, err, apierrors.IsTooManyRequests)
	})
}

func TestReads(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	for number := range 25 {
		s.configMap(fmt.Sprintf("map-%02d", number), map[string]string{"parity": []string{"even", "odd"}[number%2]})
	}
	own := func(options metav1.ListOptions) metav1.ListOptions {
		if options.LabelSelector == "" {
			options.LabelSelector = "parity"
		}
		return options
	}
	s.check("set-based selectors", func(s *site) {
		found := must(maps.List(s.ctx, metav1.ListOptions{LabelSelector: "parity in (odd),parity!=even"}))
		equal(s, "objects", len(found.Items), 12)
	})
	s.check("field selectors", func(s *site) {
		found := must(maps.List(s.ctx, metav1.ListOptions{FieldSelector: "metadata.name=map-03"}))
		equal(s, "objects", len(found.Items), 1)
	})
	s.check("an unknown field in a selector is a bad request", func(s *site) {
		_, err := maps.List(s.ctx, metav1.ListOptions{FieldSelector: "data.key=value"})
		refused(s, err, apierrors.IsBadRequest)
	})
	s.check("pages contain every object once", func(s *site) {
		pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
			return maps.List(s.ctx, own(options))
		}))
		pages.PageSize = 7
		names := map[string]bool{}
		ok(pages.EachListItem(s.ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			names[object.(*corev1.ConfigMap).Name] = true
			return nil
		}))
		equal(s, "objects", len(names), 25)
	})
	s.check("a page says how many objects remain", func(s *site) {
		page := must(maps.List(s.ctx, metav1.ListOptions{Limit: 10}))
		if page.Continue == "" || page.RemainingItemCount == nil || *page.RemainingItemCount < 15 {
			s.Fatalf("%+v", page.ListMeta)
		}
	})
	s.check("revision 0 lists from the cache", func(s *site) {
		must(maps.List(s.ctx, metav1.ListOptions{ResourceVersion: "0"}))
	})
	s.check("protobuf and JSON have the same objects", func(s *site) {
		binary := rest.CopyConfig(config)
		binary.ContentType = runtime.ContentTypeProtobuf
		binary.AcceptContentTypes = runtime.ContentTypeProtobuf
		found := must(kubernetes.NewForConfigOrDie(binary).CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "map-03", metav1.GetOptions{}))
		equal(s, "object", found.String(), must(maps.Get(s.ctx, "map-03", metav1.GetOptions{})).String())
	})
	s.check("the metadata client lists partial objects", func(s *site) {
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		found := must(metadata.NewForConfigOrDie(config).Resource(gvr).Namespace(s.namespace).List(s.ctx, own(metav1.ListOptions{})))
		equal(s, "objects", len(found.Items), 25)
		equal(s, "labels", found.Items[3].Labels["parity"], "odd")
	})
	s.check("the metadata client patches", func(s *site) {
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		patched := must(metadata.NewForConfigOrDie(config).Resource(gvr).Namespace(s.namespace).
			Patch(s.ctx, "map-03", types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"yes"}}}`), metav1.PatchOptions{}))
		equal(s, "label", patched.Labels["new"], "yes")
	})
}

func TestAccess(t *testing.T) {
	s := newSite(t)
	as := func(user string) kubernetes.Interface {
		other := rest.CopyConfig(config)
		other.Impersonate = rest.ImpersonationConfig{UserName: user}
		return kubernetes.NewForConfigOrDie(other)
	}
	s.check("a user without a role may do nothing", func(s *site) {
		_, err := as("nobody").CoreV1().ConfigMaps(s.namespace).List(s.ctx, metav1.ListOptions{})
		refused(s, err, apierrors.IsForbidden)
	})
	s.check("a role grants", func(s *site) {
		must(client.RbacV1().Roles(s.namespace).Create(s.ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
		}, metav1.CreateOptions{}))
		must(client.RbacV1().RoleBindings(s.namespace).Create(s.ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "reader"}},
		}, metav1.CreateOptions{}))
		s.until("the role is in force", func() bool {
			_, err := as("reader").CoreV1().ConfigMaps(s.namespace).List(s.ctx, metav1.ListOptions{})
			return err == nil
		})
	})
	s.check("a review tells what a user may do", func(s *site) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "reader", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "list", Resource: "configmaps"},
		}}
		found := must(client.AuthorizationV1().SubjectAccessReviews().Create(s.ctx, review, metav1.CreateOptions{}))
		equal(s, "allowed", found.Status.Allowed, true)
	})
	s.check("a client learns its own rights", func(s *site) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "delete", Resource: "configmaps"},
		}}
		found := must(as("reader").AuthorizationV1().SelfSubjectAccessReviews().Create(s.ctx, review, metav1.CreateOptions{}))
		equal(s, "allowed", found.Status.Allowed, false)
	})
	s.check("a service account's token is an identity", func(s *site) {
		accounts := client.CoreV1().ServiceAccounts(s.namespace)
		must(accounts.Create(s.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))
		token := must(accounts.CreateToken(s.ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})).Status.Token
		robot := rest.AnonymousClientConfig(config)
		robot.BearerToken = token
		review := must(kubernetes.NewForConfigOrDie(robot).AuthenticationV1().SelfSubjectReviews().
			Create(s.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))
		equal(s, "user", review.Status.UserInfo.Username, "system:serviceaccount:"+s.namespace+":robot")
	})
	s.check("a wrong token is unauthorized", func(s *site) {
		wrong := rest.AnonymousClientConfig(config)
		wrong.BearerToken = "wrong"
		_, err := kubernetes.NewForConfigOrDie(wrong).CoreV1().ConfigMaps(s.namespace).List(s.ctx, metav1.ListOptions{})
		refused(s, err, apierrors.IsUnauthorized)
	})
}
