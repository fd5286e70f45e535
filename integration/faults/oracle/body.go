// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// lastApplied is the annotation that the bridge removes.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// shownAnnotation is the annotation of Secrets whose value bridges publish.
const shownAnnotation = "faults.example.com/change"

// bodyOf returns a hash of an object's content, and says whether there is more than its identity. The content is all
// that etcd and an event have in common: not the version, managedFields and lastApplied, not kind and apiVersion,
// which lists leave out, no empty maps and lists, and of most values of a Secret only that there are any.
func bodyOf(object []byte) (hash string, more bool, err error) {
	from := json.NewDecoder(bytes.NewReader(object))
	from.UseNumber()
	var o map[string]any
	if err := from.Decode(&o); err != nil {
		return "", false, errors.New("it is no JSON object") // what json says may quote a value
	}
	meta, _ := o["metadata"].(map[string]any)
	if o["kind"] == "Secret" && o["apiVersion"] == "v1" {
		forget(o["data"])
		forget(meta["annotations"])
	}
	delete(o, "kind")
	delete(o, "apiVersion")
	delete(meta, "resourceVersion")
	delete(meta, "managedFields")
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, lastApplied)
	}
	prune(o)
	identity := 0
	for _, member := range []string{"uid", "name", "namespace"} {
		if _, there := meta[member]; there {
			identity++
		}
	}
	canonical, err := json.Marshal(o) // with sorted members
	if err != nil {
		return "", false, err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8]), len(o) > 1 || len(meta) > identity, nil
}

// forget forgets the values of a map.
func forget(of any) {
	values, _ := of.(map[string]any)
	for name := range values {
		if name != shownAnnotation {
			values[name] = true
		}
	}
}

// prune removes what is null or empty.
func prune(of map[string]any) {
	for name, value := range of {
		switch v := value.(type) {
		case nil:
			delete(of, name)
		case map[string]any:
			if prune(v); len(v) == 0 {
				delete(of, name)
			}
		case []any:
			for _, element := range v {
				if m, ok := element.(map[string]any); ok {
					prune(m)
				}
			}
			if len(v) == 0 {
				delete(of, name)
			}
		}
	}
}
