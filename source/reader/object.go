// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// cached is how many objects the informer's cache holds at most. Below 100, [strconv.Itoa] allocates nothing. A single
// one would do, but the informer takes over at a time only what has different keys.
const cached = 100

// object is a change on its way through the informer. It has the key of one of a few places in the informer's cache,
// where it takes the place of an earlier one, so that the cache does not grow with what exists. What is left when the
// handler has taken the change stays there as an empty shell.
type object struct {
	unread
	unset
	place, version string
	change         *source.Change
}

// take returns the change, nil if it was taken before. Only the handler calls it, which is one goroutine.
func (o *object) take() *source.Change {
	c := o.change
	o.change = nil
	return c
}

func (o *object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (o *object) DeepCopyObject() runtime.Object   { return &object{place: o.place, version: o.version} }
func (o *object) GetObjectMeta() metav1.Object     { return o }
func (o *object) GetName() string                  { return o.place }
func (o *object) GetResourceVersion() string       { return o.version }

// places gives objects their places in turn.
type places int

func (p *places) next() string {
	*p = (*p + 1) % cached
	return strconv.Itoa(int(*p))
}

// list is what the reflector is given as a list: its version alone. What is listed goes past the informer.
type list struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

func (l *list) DeepCopyObject() runtime.Object { c := *l; return &c }

// unread has the getters of metav1.Object that nothing here calls.
type unread struct{}

func (unread) GetNamespace() string                          { return "" }
func (unread) GetUID() types.UID                             { return "" }
func (unread) GetGenerateName() string                       { return "" }
func (unread) GetGeneration() int64                          { return 0 }
func (unread) GetSelfLink() string                           { return "" }
func (unread) GetCreationTimestamp() metav1.Time             { return metav1.Time{} }
func (unread) GetDeletionTimestamp() *metav1.Time            { return nil }
func (unread) GetDeletionGracePeriodSeconds() *int64         { return nil }
func (unread) GetLabels() map[string]string                  { return nil }
func (unread) GetAnnotations() map[string]string             { return nil }
func (unread) GetFinalizers() []string                       { return nil }
func (unread) GetOwnerReferences() []metav1.OwnerReference   { return nil }
func (unread) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

// unset has the setters of metav1.Object that nothing here calls.
type unset struct{}

func (unset) SetNamespace(string)                                        {}
func (unset) SetName(string)                                             {}
func (unset) SetGenerateName(string)                                     {}
func (unset) SetUID(types.UID)                                           {}
func (unset) SetResourceVersion(string)                                  {}
func (unset) SetGeneration(int64)                                        {}
func (unset) SetSelfLink(string)                                         {}
func (unset) SetCreationTimestamp(metav1.Time)                           {}
func (unset) SetDeletionTimestamp(*metav1.Time)                          {}
func (unset) SetDeletionGracePeriodSeconds(*int64)                       {}
func (unset) SetLabels(map[string]string)                                {}
func (unset) SetAnnotations(map[string]string)                           {}
func (unset) SetFinalizers([]string)                                     {}
func (unset) SetOwnerReferences([]metav1.OwnerReference)                 {}
func (unset) SetManagedFields(managedFields []metav1.ManagedFieldsEntry) {}
