// A controller of widgets with controller-runtime: an example of a controller that drydock tests.
//
// A widget of size 3 named `w` gets the ConfigMaps `w-0`, `w-1` and `w-2`. With --bug the controller has a planted bug: it
// trusts the number of parts in the status.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// widgetLabel is the label of a part with the name of its widget.
const widgetLabel = "example.com/widget"

// period is the time between two passes over a widget.
const period = 300 * time.Millisecond

func main() {
	hasBug := flag.Bool("bug", false, "trust the number of parts in the status")
	flag.Parse() // also --kubeconfig; without it KUBECONFIG names the cluster
	ctrl.SetLogger(zap.New())
	if err := run(*hasBug); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(hasBug bool) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addWidgets(scheme)
	namespace := os.Getenv("DRYDOCK_NAMESPACE")
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Widget{}).
		Complete(&reconciler{Client: manager.GetClient(), uncached: manager.GetAPIReader(), hasBug: hasBug})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

type reconciler struct {
	client.Client // reads from caches, which may be old
	uncached      client.Reader
	hasBug        bool
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &Widget{}
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	size, known := widget.Spec.Size, widget.Status.Parts
	if r.hasBug && known <= size {
		// The status does not say what exists: it may be old, or its last write may have failed. A name that is taken
		// belongs to another widget, so it takes the next one.
		next := known
		for range size - known {
			for created := false; !created; next++ {
				var err error
				if created, err = r.create(ctx, widget, partName(widget, next)); err != nil {
					return ctrl.Result{}, err
				}
			}
		}
	} else if err := r.repair(ctx, widget); err != nil {
		return ctrl.Result{}, err
	}
	if known != size {
		before := widget.DeepCopy()
		widget.Status.Parts = size
		if err := r.Status().Patch(ctx, widget, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: period}, nil
}

// repair creates missing parts and deletes others. It compares with what the API server has, not with the status or a cache.
func (r *reconciler) repair(ctx context.Context, widget *Widget) error {
	var parts corev1.ConfigMapList
	ofWidget := client.MatchingLabels{widgetLabel: widget.Name}
	if err := r.uncached.List(ctx, &parts, client.InNamespace(widget.Namespace), ofWidget); err != nil {
		return err
	}
	existing := map[string]*corev1.ConfigMap{}
	for index := range parts.Items {
		existing[parts.Items[index].Name] = &parts.Items[index]
	}
	for number := range widget.Spec.Size {
		name := partName(widget, number)
		if existing[name] == nil {
			if _, err := r.create(ctx, widget, name); err != nil {
				return err
			}
		}
		delete(existing, name)
	}
	for _, part := range existing {
		if err := client.IgnoreNotFound(r.Delete(ctx, part)); err != nil {
			return err
		}
	}
	return nil
}

// create creates a part; it returns whether it did not exist.
func (r *reconciler) create(ctx context.Context, widget *Widget, name string) (bool, error) {
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		Namespace:       widget.Namespace,
		Labels:          map[string]string{widgetLabel: widget.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(widget, groupVersion.WithKind("Widget"))},
	}}
	err := r.Create(ctx, part)
	if errors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

func partName(widget *Widget, number int) string {
	return fmt.Sprintf("%s-%d", widget.Name, number)
}
