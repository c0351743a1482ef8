package clients

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func TestWatches(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	// from watches from now on, with these options.
	from := func(s *site, options metav1.ListOptions) watch.Interface {
		options.ResourceVersion = must(maps.List(s.ctx, metav1.ListOptions{})).ResourceVersion
		watched := must(maps.Watch(s.ctx, options))
		s.Cleanup(watched.Stop)
		return watched
	}
	expect := func(s *site, watched watch.Interface, kind watch.EventType, name string) *corev1.ConfigMap {
		s.Helper()
		event := s.event(watched)
		equal(s, "event", event.Type, kind)
		object := event.Object.(*corev1.ConfigMap)
		equal(s, "object", object.Name, name)
		return object
	}
	label := func(s *site, name, value string) {
		found := must(maps.Get(s.ctx, name, metav1.GetOptions{}))
		found.Labels = map[string]string{"watched": value}
		must(maps.Update(s.ctx, found, metav1.UpdateOptions{}))
	}
	s.check("changes arrive in order", func(s *site) {
		watched := from(s, metav1.ListOptions{})
		s.configMap("ordered", nil)
		label(s, "ordered", "yes")
		ok(maps.Delete(s.ctx, "ordered", metav1.DeleteOptions{}))
		expect(s, watched, watch.Added, "ordered")
		expect(s, watched, watch.Modified, "ordered")
		last := expect(s, watched, watch.Deleted, "ordered")
		equal(s, "label of the last state", last.Labels["watched"], "yes")
	})
	s.check("an object that leaves a selection is deleted from it", func(s *site) {
		s.configMap("selected", map[string]string{"watched": "no"})
		watched := from(s, metav1.ListOptions{LabelSelector: "watched=yes"})
		label(s, "selected", "yes")
		expect(s, watched, watch.Added, "selected")
		label(s, "selected", "no")
		expect(s, watched, watch.Deleted, "selected")
	})
	s.check("a watch of one object", func(s *site) {
		s.configMap("only", nil)
		watched := from(s, metav1.ListOptions{FieldSelector: "metadata.name=only"})
		s.configMap("another", nil)
		label(s, "only", "yes")
		expect(s, watched, watch.Modified, "only")
	})
	s.check("a watch without a revision starts with the objects", func(s *site) {
		s.configMap("first", map[string]string{"start": "yes"})
		watched := must(maps.Watch(s.ctx, metav1.ListOptions{LabelSelector: "start=yes"}))
		defer watched.Stop()
		expect(s, watched, watch.Added, "first")
	})
	s.check("a streaming list ends with a bookmark", func(s *site) {
		s.configMap("streamed", map[string]string{"stream": "yes"})
		watched := must(maps.Watch(s.ctx, metav1.ListOptions{
			LabelSelector: "stream=yes", SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}))
		defer watched.Stop()
		expect(s, watched, watch.Added, "streamed")
		select {
		case event := <-watched.ResultChan():
			equal(s, "event", event.Type, watch.Bookmark)
			equal(s, "annotation", event.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey], "true")
		case <-time.After(limit):
			s.Fatal("no bookmark")
		}
	})
	s.check("a watch ends at its timeout", func(s *site) {
		started := time.Now()
		watched := must(maps.Watch(s.ctx, metav1.ListOptions{TimeoutSeconds: ptr.To[int64](1)}))
		for range watched.ResultChan() {
		}
		if took := time.Since(started); took > 10*time.Second {
			s.Fatalf("it took %v", took)
		}
	})
	s.check("a watch in protobuf", func(s *site) {
		binary := rest.CopyConfig(config)
		binary.ContentType = runtime.ContentTypeProtobuf
		options := metav1.ListOptions{ResourceVersion: must(maps.List(s.ctx, metav1.ListOptions{})).ResourceVersion}
		watched := must(kubernetes.NewForConfigOrDie(binary).CoreV1().ConfigMaps(s.namespace).Watch(s.ctx, options))
		defer watched.Stop()
		s.configMap("binary", nil)
		expect(s, watched, watch.Added, "binary")
	})
	s.check("a watch of metadata", func(s *site) {
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		options := metav1.ListOptions{ResourceVersion: must(maps.List(s.ctx, metav1.ListOptions{})).ResourceVersion}
		watched := must(metadata.NewForConfigOrDie(config).Resource(gvr).Namespace(s.namespace).Watch(s.ctx, options))
		defer watched.Stop()
		s.configMap("partial", nil)
		equal(s, "name", s.event(watched).Object.(*metav1.PartialObjectMetadata).Name, "partial")
	})
}
