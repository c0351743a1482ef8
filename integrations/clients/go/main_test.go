// Package clients checks what client-go expects of an API server. KUBECONFIG names the server, which has the controllers of
// kube-controller-manager. Each subtest is a check.
package clients

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The time limit of everything that a check waits for.
const limit = 30 * time.Second

var (
	config *rest.Config
	client kubernetes.Interface
)

func TestMain(m *testing.M) {
	var err error
	if config, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")); err != nil {
		fmt.Fprintln(os.Stderr, "KUBECONFIG must name the kubeconfig of a server:", err)
		os.Exit(2)
	}
	config.QPS = -1
	client = kubernetes.NewForConfigOrDie(config)
	os.Exit(m.Run())
}

// A site is the namespace of a test.
type site struct {
	*testing.T
	ctx       context.Context
	namespace string
}

func newSite(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	t.Cleanup(cancel)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clients-"}}
	created := must(client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}))
	t.Cleanup(func() {
		client.CoreV1().Namespaces().Delete(context.Background(), created.Name, metav1.DeleteOptions{})
	})
	s := &site{T: t, ctx: ctx, namespace: created.Name}
	s.until("the controllers create the default service account, which pods need", func() bool {
		_, err := client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return s
}

// check runs a check in the namespace of the test.
func (s *site) check(name string, check func(*site)) {
	s.Run(name, func(t *testing.T) {
		defer func() {
			// must panics with an error.
			if problem := recover(); problem != nil {
				t.Fatal(problem)
			}
		}()
		check(&site{T: t, ctx: s.ctx, namespace: s.namespace})
	})
}

// must returns the value, and ends the check at an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Errorf("unexpected error: %w", err))
	}
	return value
}

// ok ends the check at an error.
func ok(err error) {
	if err != nil {
		panic(fmt.Errorf("unexpected error: %w", err))
	}
}

// equal compares a value with the expected one.
func equal[T comparable](s *site, what string, found, expected T) {
	s.Helper()
	if found != expected {
		s.Fatalf("%s: %v instead of %v", what, found, expected)
	}
}

// refused expects an error of that class.
func refused(s *site, err error, class func(error) bool) *apierrors.StatusError {
	s.Helper()
	if !class(err) {
		s.Fatalf("another error than expected: %v", err)
	}
	status, _ := err.(*apierrors.StatusError)
	return status
}

// until waits for a condition.
func (s *site) until(what string, condition func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.ctx, 20*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// event returns the next event of a watch, without bookmarks.
func (s *site) event(watched watch.Interface) watch.Event {
	s.Helper()
	for {
		select {
		case event, open := <-watched.ResultChan():
			if !open {
				s.Fatal("the watch ended")
			}
			if event.Type != watch.Bookmark {
				return event
			}
		case <-time.After(limit):
			s.Fatal("no event")
		}
	}
}

func (s *site) configMaps() interface {
	Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error)
} {
	return client.CoreV1().ConfigMaps(s.namespace)
}

// configMap creates a ConfigMap with one key.
func (s *site) configMap(name string, labels map[string]string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Data:       map[string]string{"key": "value"},
	}
	return must(s.configMaps().Create(s.ctx, object, metav1.CreateOptions{}))
}

func podSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}
}
