package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// A recorder is a handler of an informer that keeps the events it receives.
type recorder struct {
	lock   sync.Mutex
	events []string
}

func (r *recorder) add(event string, object any) {
	key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	_, name, _ := cache.SplitMetaNamespaceKey(key)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.events = append(r.events, event+" "+name)
}

func (r *recorder) handlers() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.add("add", object) },
		UpdateFunc: func(_, object any) { r.add("update", object) },
		DeleteFunc: func(object any) { r.add("delete", object) },
	}
}

// count returns how often an event occurred.
func (r *recorder) count(event string) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	found := 0
	for _, other := range r.events {
		if other == event {
			found++
		}
	}
	return found
}

// A counter counts the watches of a client.
type counter struct{ count atomic.Int32 }

func (c *counter) wrap(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Get("watch") != "" {
			c.count.Add(1)
		}
		return inner.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestInformers(t *testing.T) {
	s := newSite(t)
	maps := client.CoreV1().ConfigMaps(s.namespace)
	// factory returns a factory whose informers end with the check.
	factory := func(s *site, resync time.Duration, options ...informers.SharedInformerOption) (informers.SharedInformerFactory, func()) {
		ctx, cancel := context.WithCancel(s.ctx)
		options = append(options, informers.WithNamespace(s.namespace))
		factory := informers.NewSharedInformerFactoryWithOptions(client, resync, options...)
		s.Cleanup(func() { cancel(); factory.Shutdown() })
		return factory, func() {
			factory.Start(ctx.Done())
			for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
				if !synced {
					s.Fatalf("%v is not synchronized", kind)
				}
			}
		}
	}
	s.check("handlers learn of all objects and changes", func(s *site) {
		s.configMap("before", nil)
		factory, start := factory(s, 0)
		seen := &recorder{}
		must(factory.Core().V1().ConfigMaps().Informer().AddEventHandler(seen.handlers()))
		start()
		s.until("the first objects", func() bool { return seen.count("add before") == 1 })
		created := s.configMap("after", nil)
		created.Data["key"] = "new"
		must(maps.Update(s.ctx, created, metav1.UpdateOptions{}))
		ok(maps.Delete(s.ctx, "after", metav1.DeleteOptions{}))
		s.until("the changes", func() bool {
			return seen.count("add after") == 1 && seen.count("update after") == 1 && seen.count("delete after") == 1
		})
	})
	s.check("a later handler learns of the objects in the cache", func(s *site) {
		s.configMap("cached", nil)
		factory, start := factory(s, 0)
		informer := factory.Core().V1().ConfigMaps().Informer()
		start()
		seen := &recorder{}
		must(informer.AddEventHandler(seen.handlers()))
		s.until("the object", func() bool { return seen.count("add cached") == 1 })
	})
	s.check("listers select by label", func(s *site) {
		s.configMap("listed", map[string]string{"listed": "yes"})
		factory, start := factory(s, 0)
		lister := factory.Core().V1().ConfigMaps().Lister()
		start()
		found := must(lister.ConfigMaps(s.namespace).List(labels.SelectorFromSet(labels.Set{"listed": "yes"})))
		equal(s, "objects", len(found), 1)
	})
	s.check("an index finds objects", func(s *site) {
		s.configMap("indexed", map[string]string{"colour": "blue"})
		factory, start := factory(s, 0)
		informer := factory.Core().V1().ConfigMaps().Informer()
		ok(informer.AddIndexers(cache.Indexers{"colour": func(object any) ([]string, error) {
			return []string{object.(*corev1.ConfigMap).Labels["colour"]}, nil
		}}))
		start()
		equal(s, "objects", len(must(informer.GetIndexer().ByIndex("colour", "blue"))), 1)
	})
	s.check("a transformation reduces objects", func(s *site) {
		s.configMap("reduced", nil)
		factory, start := factory(s, 0, informers.WithTransform(func(object any) (any, error) {
			object.(*corev1.ConfigMap).Data = nil
			return object, nil
		}))
		lister := factory.Core().V1().ConfigMaps().Lister()
		start()
		equal(s, "keys", len(must(lister.ConfigMaps(s.namespace).Get("reduced")).Data), 0)
	})
	s.check("a selector limits an informer", func(s *site) {
		s.configMap("inside", map[string]string{"scope": "in"})
		s.configMap("outside", map[string]string{"scope": "out"})
		factory, start := factory(s, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = "scope=in"
		}))
		lister := factory.Core().V1().ConfigMaps().Lister()
		start()
		equal(s, "objects", len(must(lister.List(labels.Everything()))), 1)
	})
	s.check("a resynchronization repeats updates", func(s *site) {
		s.configMap("repeated", nil)
		factory, start := factory(s, time.Second)
		seen := &recorder{}
		must(factory.Core().V1().ConfigMaps().Informer().AddEventHandler(seen.handlers()))
		start()
		s.until("two updates", func() bool { return seen.count("update repeated") >= 2 })
	})
	s.check("an informer survives the end of its watches", func(s *site) {
		counted := rest.CopyConfig(config)
		watches := &counter{}
		counted.Wrap(watches.wrap)
		second := int64(1)
		factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(counted), 0,
			informers.WithNamespace(s.namespace),
			informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.TimeoutSeconds = &second }))
		defer factory.Shutdown()
		stop := make(chan struct{})
		defer close(stop)
		seen := &recorder{}
		must(factory.Core().V1().ConfigMaps().Informer().AddEventHandler(seen.handlers()))
		factory.Start(stop)
		for number := range 3 {
			before := watches.count.Load()
			s.until("another watch", func() bool { return watches.count.Load() > before })
			name := fmt.Sprint("life-", number)
			s.configMap(name, nil)
			s.until(name, func() bool { return seen.count("add "+name) == 1 })
		}
	})
	s.check("a controller with a queue labels every object", func(s *site) {
		factory, start := factory(s, 0)
		informer := factory.Core().V1().ConfigMaps()
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		enqueue := func(object any) {
			if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
				queue.Add(key)
			}
		}
		must(informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
		}))
		start()
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					key, shutdown := queue.Get()
					if shutdown {
						return
					}
					if label(s.ctx, informer.Lister().ConfigMaps(s.namespace).Get, key) {
						queue.Forget(key)
					} else {
						queue.AddRateLimited(key)
					}
					queue.Done(key)
				}
			})
		}
		for _, name := range []string{"work-1", "work-2", "work-3", "work-4", "work-5"} {
			s.configMap(name, map[string]string{"work": "todo"})
		}
		s.until("all labels", func() bool {
			return len(must(maps.List(s.ctx, metav1.ListOptions{LabelSelector: "work=done"})).Items) == 5
		})
		queue.ShutDown()
		workers.Wait()
	})
}

// label marks an object as done, if its label says that it is to be done. It returns whether nothing remains to do.
func label(ctx context.Context, get func(string) (*corev1.ConfigMap, error), key string) bool {
	_, name, _ := cache.SplitMetaNamespaceKey(key)
	found, err := get(name)
	if err != nil || found.Labels["work"] != "todo" {
		return true
	}
	changed := found.DeepCopy()
	changed.Labels["work"] = "done"
	_, err = client.CoreV1().ConfigMaps(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return err == nil
}
