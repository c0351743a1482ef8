package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groupVersion is the API of ../widgets/crd.yaml.
var groupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// Widget is made of so many parts, which are ConfigMaps.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec"`
	Status            WidgetStatus `json:"status"`
}

// WidgetSpec is what the user wants.
type WidgetSpec struct {
	Size int `json:"size"`
}

// WidgetStatus is what the controller has done.
type WidgetStatus struct {
	Parts int `json:"parts"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// addWidgets adds the types to a scheme.
func addWidgets(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

// DeepCopy copies a widget.
func (w *Widget) DeepCopy() *Widget {
	copied := *w
	w.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// DeepCopyObject copies a widget as runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	return w.DeepCopy()
}

// DeepCopyObject copies a list of widgets.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Widget, len(l.Items))
	for index := range l.Items {
		copied.Items[index] = *l.Items[index].DeepCopy()
	}
	return &copied
}
