// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed" // for pod.json
	"encoding/json"
	"fmt"
)

// Every variable part of an object has a fixed width, so that one object becomes another by overwriting bytes.
const (
	namespaces  = 20
	baseVersion = 1_000_000_000 // ten digits from the first version to the last

	namespaceMark = "team-NN"
	nameMark      = "checkout-NNNNNNNN"
	uidMark       = "7c0e6a52-31d8-4b6f-9d0a-UUUUUUUUUUUU"
	versionMark   = "VVVVVVVVVV"
	changeMark    = "987654"
)

// objectIdentity is what tells one object of the load from another.
type objectIdentity struct{ Namespace, Name, UID string }

func identityOf(index int) objectIdentity {
	return objectIdentity{
		Namespace: fmt.Sprintf("team-%02d", index%namespaces),
		Name:      fmt.Sprintf("checkout-%08d", index),
		UID:       fmt.Sprintf("7c0e6a52-31d8-4b6f-9d0a-%012d", index),
	}
}

// template writes objects of one kind in the member order of a real API server.
type template struct {
	kind string
	text []byte // from the member metadata on
	// Offsets of digits to overwrite.
	namespace, name, uid, version, changes, times []int
}

// pods are of about 5 KB, a third of it managedFields. configMaps are of about 1 KB.
const pods, configMaps = "pods", "configmaps"

var (
	//go:embed pod.json
	pod []byte
	//go:embed configmap.json
	configMap []byte
)

// newTemplate returns the one of a resource, pods or configmaps.
func newTemplate(resource string) (*template, error) {
	kind, object := "Pod", pod
	switch resource {
	case pods:
	case configMaps:
		kind, object = "ConfigMap", configMap
	default:
		return nil, fmt.Errorf("%q is neither %s nor %s", resource, pods, configMaps)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, object); err != nil {
		return nil, fmt.Errorf("read the %s: %w", kind, err)
	}
	text := compact.Bytes()
	text = text[bytes.Index(text, []byte(`"metadata"`)):]
	return &template{
		kind:      kind,
		text:      text,
		namespace: offsets(text, []byte(namespaceMark), len("team-")),
		name:      offsets(text, []byte(nameMark), len("checkout-")),
		uid:       offsets(text, []byte(uidMark), len(uidMark)-12),
		version:   offsets(text, []byte(versionMark), 0),
		changes:   offsets(text, []byte(changeMark), 0),
		times:     offsets(text, []byte("T08:00:59Z"), len("T08:00:")),
	}, nil
}

// appendWatched appends the object of that index as it was at version, as a watch has it.
func (t *template) appendWatched(dst []byte, index int, version uint64) []byte {
	dst = append(append(append(dst, `{"kind":"`...), t.kind...), `","apiVersion":"v1",`...)
	return t.appendRest(dst, index, version)
}

// appendListed appends the same as a list has it, without kind and apiVersion.
func (t *template) appendListed(dst []byte, index int, version uint64) []byte {
	return t.appendRest(append(dst, '{'), index, version)
}

func (t *template) appendRest(dst []byte, index int, version uint64) []byte {
	body := len(dst)
	dst = append(dst, t.text...)
	text := dst[body:]
	put(text, t.namespace, 2, uint64(index%namespaces))
	put(text, t.name, 8, uint64(index))
	put(text, t.uid, 12, uint64(index))
	put(text, t.version, 10, version)
	put(text, t.changes, 6, 100_000+version%900_000)
	put(text, t.times, 2, version%60)
	return dst
}

// put overwrites width digits at each offset.
func put(text []byte, offsets []int, width int, n uint64) {
	for _, at := range offsets {
		v := n
		for i := at + width - 1; i >= at; i-- {
			text[i] = byte('0' + v%10)
			v /= 10
		}
	}
}

func offsets(text, mark []byte, skip int) []int {
	var found []int
	for from := 0; ; {
		i := bytes.Index(text[from:], mark)
		if i < 0 {
			return found
		}
		found = append(found, from+i+skip)
		from += i + len(mark)
	}
}
