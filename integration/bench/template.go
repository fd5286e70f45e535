// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed" // for pod.json
	"encoding/json"
	"fmt"
)

// Every variable part of a pod has a fixed width, so that one pod becomes another by overwriting bytes.
const (
	namespaces  = 20
	baseVersion = 1_000_000_000 // ten digits from the first version to the last

	namespaceMark = "team-NN"
	nameMark      = "checkout-NNNNNNNN"
	uidMark       = "7c0e6a52-31d8-4b6f-9d0a-UUUUUUUUUUUU"
	versionMark   = "VVVVVVVVVV"
	restartMark   = 987654
)

// podIdentity is what tells one pod of the load from another.
type podIdentity struct{ Namespace, Name, UID string }

func identityOf(index int) podIdentity {
	return podIdentity{
		Namespace: fmt.Sprintf("team-%02d", index%namespaces),
		Name:      fmt.Sprintf("checkout-%08d", index),
		UID:       fmt.Sprintf("7c0e6a52-31d8-4b6f-9d0a-%012d", index),
	}
}

// podTemplate writes pods of about 5 KB, a third of it managedFields, in the member order of a real API server.
type podTemplate struct {
	text []byte // from the member metadata on
	// Offsets of digits to overwrite.
	namespace, name, uid, version, restarts, times []int
}

// Prefixes of a pod: a watch sends kind and apiVersion, the items of a list do not have them.
const (
	watchedPrefix = `{"kind":"Pod","apiVersion":"v1",`
	listedPrefix  = `{`
)

//go:embed pod.json
var pod []byte

func newPodTemplate() (*podTemplate, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, pod); err != nil {
		return nil, fmt.Errorf("read pod.json: %w", err)
	}
	text := compact.Bytes()
	text = text[bytes.Index(text, []byte(`"metadata"`)):]
	restarts := fmt.Appendf(nil, `"restartCount":%d`, restartMark)
	return &podTemplate{
		text:      text,
		namespace: offsets(text, []byte(namespaceMark), len("team-")),
		name:      offsets(text, []byte(nameMark), len("checkout-")),
		uid:       offsets(text, []byte(uidMark), len(uidMark)-12),
		version:   offsets(text, []byte(versionMark), 0),
		restarts:  offsets(text, restarts, len(`"restartCount":`)),
		times:     offsets(text, []byte("T08:00:59Z"), len("T08:00:")),
	}, nil
}

// appendPod appends the pod of that index as it was at version, which begins with one of the prefixes.
func (t *podTemplate) appendPod(dst []byte, prefix string, index int, version uint64) []byte {
	dst = append(dst, prefix...)
	body := len(dst)
	dst = append(dst, t.text...)
	text := dst[body:]
	put(text, t.namespace, 2, uint64(index%namespaces))
	put(text, t.name, 8, uint64(index))
	put(text, t.uid, 12, uint64(index))
	put(text, t.version, 10, version)
	put(text, t.restarts, 6, 100_000+version%900_000)
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
