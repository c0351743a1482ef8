package clients

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
)

func TestApplyConfigurations(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	apply := func(s *site, manager string, force bool, name string, data map[string]string) (*corev1.ConfigMap, error) {
		configuration := applycorev1.ConfigMap(name, s.namespace).WithData(data)
		return maps.Apply(s.ctx, configuration, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	s.check("an applied object is created", func(s *site) {
		created := must(apply(s, "a", false, "created", map[string]string{"key": "1"}))
		equal(s, "managers", len(created.ManagedFields), 1)
		equal(s, "operation", created.ManagedFields[0].Operation, metav1.ManagedFieldsOperationApply)
	})
	s.check("applying again changes nothing", func(s *site) {
		first := must(apply(s, "a", false, "again", map[string]string{"key": "1"}))
		second := must(apply(s, "a", false, "again", map[string]string{"key": "1"}))
		equal(s, "revision", second.ResourceVersion, first.ResourceVersion)
	})
	s.check("another manager's field is a conflict", func(s *site) {
		must(apply(s, "a", false, "conflict", map[string]string{"key": "1"}))
		_, err := apply(s, "b", false, "conflict", map[string]string{"key": "2"})
		message := refused(s, err, apierrors.IsConflict).ErrStatus.Message
		if !strings.Contains(message, `conflict with "a"`) || !strings.Contains(message, ".data.key") {
			s.Fatal(message)
		}
	})
	s.check("equal values are shared", func(s *site) {
		must(apply(s, "a", false, "shared", map[string]string{"key": "1"}))
		shared := must(apply(s, "b", false, "shared", map[string]string{"key": "1"}))
		equal(s, "managers", len(shared.ManagedFields), 2)
	})
	s.check("force takes a field", func(s *site) {
		must(apply(s, "a", false, "forced", map[string]string{"key": "1"}))
		forced := must(apply(s, "b", true, "forced", map[string]string{"key": "2"}))
		equal(s, "value", forced.Data["key"], "2")
		equal(s, "managers", len(forced.ManagedFields), 1)
	})
	s.check("a field that is no longer applied is removed", func(s *site) {
		must(apply(s, "a", false, "dropped", map[string]string{"key": "1", "other": "2"}))
		equal(s, "keys", len(must(apply(s, "a", false, "dropped", map[string]string{"key": "1"})).Data), 1)
	})
	s.check("a field of another manager stays", func(s *site) {
		must(apply(s, "a", false, "kept", map[string]string{"key": "1"}))
		must(apply(s, "b", false, "kept", map[string]string{"other": "2"}))
		equal(s, "keys", len(must(apply(s, "a", false, "kept", map[string]string{})).Data), 1)
	})
	s.check("an update owns what it changes", func(s *site) {
		found := must(apply(s, "a", false, "updated", map[string]string{"key": "1"}))
		found.Data["key"] = "2"
		must(maps.Update(s.ctx, found, metav1.UpdateOptions{FieldManager: "editor"}))
		_, err := apply(s, "a", false, "updated", map[string]string{"key": "1"})
		refused(s, err, apierrors.IsConflict)
	})
	s.check("an extracted configuration has only the manager's fields", func(s *site) {
		must(apply(s, "a", false, "extracted", map[string]string{"key": "1"}))
		found := must(apply(s, "b", false, "extracted", map[string]string{"other": "2"}))
		extracted := must(applycorev1.ExtractConfigMap(found, "a"))
		equal(s, "keys", len(extracted.Data), 1)
		equal(s, "value", extracted.Data["key"], "1")
	})
	s.check("containers merge by name", func(s *site) {
		deployments := client.AppsV1().Deployments(s.namespace)
		labels := map[string]string{"app": "applied"}
		of := func(manager, container string) {
			pod := applycorev1.PodTemplateSpec().WithLabels(labels).
				WithSpec(applycorev1.PodSpec().WithContainers(applycorev1.Container().WithName(container).WithImage("image")))
			configuration := applyappsv1.Deployment("applied", s.namespace).WithSpec(applyappsv1.DeploymentSpec().WithPaused(true).
				WithReplicas(0).WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).WithTemplate(pod))
			must(deployments.Apply(s.ctx, configuration, metav1.ApplyOptions{FieldManager: manager}))
		}
		of("a", "one")
		of("b", "two")
		equal(s, "containers", len(must(deployments.Get(s.ctx, "applied", metav1.GetOptions{})).Spec.Template.Spec.Containers), 2)
	})
	s.check("a status is applied separately", func(s *site) {
		namespaces := client.CoreV1().Namespaces()
		configuration := applycorev1.Namespace(s.namespace).WithStatus(applycorev1.NamespaceStatus().WithConditions(
			applycorev1.NamespaceCondition().WithType("Checked").WithStatus(corev1.ConditionTrue)))
		must(namespaces.ApplyStatus(s.ctx, configuration, metav1.ApplyOptions{FieldManager: "checker"}))
		found := must(namespaces.Get(s.ctx, s.namespace, metav1.GetOptions{}))
		equal(s, "conditions", len(found.Status.Conditions), 1)
		for _, entry := range found.ManagedFields {
			if entry.Manager == "checker" {
				equal(s, "subresource", entry.Subresource, "status")
			}
		}
	})
}
