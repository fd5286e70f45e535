// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// The operations, as they are in the types of events.
const (
	added   = "added"
	updated = "updated"
	deleted = "deleted"
)

// The reasons of events: seen by a watch, or in an informer's first list.
const (
	byWatch = "watch"
	byList  = "snapshot"
)

// epoch is the only one that there can be without a checkpoint.
const epoch = 1

// stream is one resource in one scope.
type stream struct {
	cluster, pipeline   string
	resource            schema.GroupVersionResource
	namespace, selector string
}

func (s stream) String() string {
	return strings.Trim(s.resource.GroupResource().String()+"/"+s.namespace+"?"+s.selector, "/?")
}

func (s stream) source() string {
	if s.resource.Group == "" {
		return "/clusters/" + s.cluster + "/api/" + s.resource.Version + "/" + s.resource.Resource
	}
	return "/clusters/" + s.cluster + "/apis/" + s.resource.Group + "/" + s.resource.Version + "/" + s.resource.Resource
}

// event is the message that the bridge would send about an object, as far as an informer knows it.
func (s stream) event(u *unstructured.Unstructured, op, reason string) (*nats.Msg, error) {
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	version, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the version of %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	at := sequence.Sequence{Epoch: epoch, Version: version}
	if op == deleted {
		at.Step = sequence.End
	}
	id := at.ID(string(u.GetUID()))
	group, now := either(s.resource.Group, "core"), time.Now().UTC().Format(time.RFC3339Nano)
	m := &nats.Msg{
		Subject: strings.Join([]string{
			"k8s", flat(s.cluster), flat(group), s.resource.Resource, either(token(u.GetNamespace()), "_"), token(u.GetName()),
		}, "."),
		Header: nats.Header{nats.MsgIdHdr: {s.prefix() + id}}, Data: data,
	}
	for name, value := range map[string]string{
		"specversion": "1.0", "type": "io.kube-eventbridge.resource." + op + ".v1", "source": s.source(), "id": id,
		"time": now, "recordedtime": now,
		"subject": strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"), "datacontenttype": "application/json",
		"payload": "object", "pipeline": s.pipeline,
		"clustername": s.cluster, "apiversion": u.GetAPIVersion(), "kind": u.GetKind(), "namespace": u.GetNamespace(),
		"name": u.GetName(), "objectuid": string(u.GetUID()),
		"resourceversion": u.GetResourceVersion(), "sequence": at.String(), "reason": reason, "resource": s.resource.Resource,
		"partitionkey": strings.Join([]string{
			s.cluster, group, s.resource.Resource, either(u.GetNamespace(), "_"),
			u.GetName(),
		}, "/"),
	} {
		if value != "" {
			m.Header["ce-"+name] = []string{url.PathEscape(value)}
		}
	}
	return m, nil
}

// prefix tells events of the same id apart in a log that pipelines share.
func (s stream) prefix() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.pipeline + "\x00" + s.source()))
	return fmt.Sprintf("%016x.", h.Sum64())
}

func flat(name string) string { return strings.ReplaceAll(name, ".", "_") }

// token makes a name one token of a subject.
func token(name string) string {
	return strings.NewReplacer("%", "%25", ".", "%2E", "*", "%2A", ">", "%3E", " ", "%20").Replace(name)
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// slim takes away what is large and rarely read, and what is secret. It is an informer's transformation.
func slim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if u.GetKind() == "Secret" {
		unstructured.RemoveNestedField(u.Object, "data")
		unstructured.RemoveNestedField(u.Object, "stringData")
	}
	return u, nil
}
