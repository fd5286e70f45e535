// SPDX-License-Identifier: Apache-2.0

package reader

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// object is what stands for an object of the cluster in the informer's cache: its identity, without a body. One that a
// watch made has its change with it until the handler takes that; what is left, and what a list made from the start, is
// called a stub.
type object struct {
	unread
	unset
	source.Identity
	change *source.Change
}

// take returns the change, nil from a stub, and makes o a stub, so that the cache keeps no body. Only the handler calls
// it, which is one goroutine.
func (o *object) take() *source.Change {
	c := o.change
	o.change = nil
	return c
}

func (o *object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (o *object) DeepCopyObject() runtime.Object   { return &object{Identity: o.Identity} }
func (o *object) GetObjectMeta() metav1.Object     { return o }
func (o *object) GetNamespace() string             { return o.Namespace }
func (o *object) GetName() string                  { return o.Name }
func (o *object) GetUID() types.UID                { return types.UID(o.UID) }
func (o *object) GetResourceVersion() string       { return o.ResourceVersion }

// stubs is the list that the reflector is given: what is known already, without bodies.
type stubs struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

func (s *stubs) DeepCopyObject() runtime.Object {
	c := *s
	c.Items = append([]runtime.Object(nil), s.Items...)
	return &c
}

// unread has the getters of metav1.Object that nothing here calls.
type unread struct{}

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
