package drydock

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// An owner's deletion deletes what it owns, as in a cluster: envtest has no garbage collector.
func TestGarbageIsCollected(t *testing.T) {
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(Start(t))
	maps := client.CoreV1().ConfigMaps("default")
	owner := create(t, client, "default", core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "owner"}})
	reference := meta.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
	owned := create(t, client, "default", core.ConfigMap{ObjectMeta: meta.ObjectMeta{
		Name: "owned", OwnerReferences: []meta.OwnerReference{reference},
	}})
	changes, err := maps.Watch(ctx, meta.ListOptions{ResourceVersion: owned.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, owner.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForDeletion(ctx, t, changes, owned.Name)
}

// The deletion of a namespace deletes its content: with envtest it stays Terminating.
func TestNamespacesAreDeleted(t *testing.T) {
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(Start(t))
	namespaces := client.CoreV1().Namespaces()
	one, err := namespaces.Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "one"}}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, one.Name, core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "content"}})
	changes, err := namespaces.Watch(ctx, meta.ListOptions{ResourceVersion: one.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(ctx, one.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForDeletion(ctx, t, changes, one.Name)
}

func create(t *testing.T, client kubernetes.Interface, namespace string, one core.ConfigMap) *core.ConfigMap {
	t.Helper()
	created, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &one, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// waitForDeletion returns when the object is deleted; the test's timeout limits the wait.
func waitForDeletion(ctx context.Context, t *testing.T, changes watch.Interface, name string) {
	t.Helper()
	defer changes.Stop()
	for {
		select {
		case change, open := <-changes.ResultChan():
			if !open {
				t.Fatalf("the watch ended before %s was deleted", name)
			}
			object, ok := change.Object.(meta.Object)
			if ok && change.Type == watch.Deleted && object.GetName() == name {
				return
			}
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}
