// SPDX-License-Identifier: Apache-2.0

// Package observed tells what an object of the target is to a replica.
package observed

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// Observer knows which objects are those of a replica.
type Observer struct {
	// Replica and Cluster are the names of the replica, and of the cluster that its log is of.
	Replica, Cluster string
}

// Actual returns how the target has an object, which it changes.
func (o *Observer) Actual(res *selection.Resource, key keys.Key, object map[string]any) keys.Actual {
	metadata, _ := object["metadata"].(map[string]any)
	label := Member(metadata, "labels", clean.Label)
	origin := Member(metadata, "annotations", clean.Origin)
	a := keys.Actual{Owner: keys.Absent, Terminating: metadata["deletionTimestamp"] != nil}
	a.UID, _ = metadata["uid"].(string)
	a.Version, _ = metadata["resourceVersion"].(string)
	isOurs := origin == res.Origin(o.Cluster, key.Namespace, key.Name)
	switch {
	case label == o.Replica && isOurs:
		a.Owner = keys.Ours
	case label == o.Replica || isOurs:
		a.Owner = keys.Detached
	default:
		return a
	}
	a.Origin = keys.OriginOf(Member(metadata, "annotations", clean.OriginUID))
	// What is unreadable is older than all else.
	a.Applied, _ = sequence.Parse(Member(metadata, "annotations", clean.OriginSequence))
	manages(metadata, func(operation string, fieldsV1 map[string]any) {
		a.Replaced = a.Replaced || operation == "Update"
		a.OwnsIgnored = a.OwnsIgnored || res.Rules(key.Namespace).IgnoresAny(fieldsV1)
	})
	a.Digest = digestOf(res, key, object)
	return a
}

// manages calls f with the entries of managedFields that are of the replica.
func manages(metadata map[string]any, f func(operation string, fieldsV1 map[string]any)) {
	entries, _ := metadata["managedFields"].([]any)
	for _, v := range entries {
		entry, _ := v.(map[string]any)
		if entry["manager"] != write.Manager {
			continue
		}
		operation, _ := entry["operation"].(string)
		fieldsV1, _ := entry["fieldsV1"].(map[string]any)
		f(operation, fieldsV1)
	}
}

// digestOf stands for what an object of the target says, apart from what the API server adds. It changes the object.
func digestOf(res *selection.Resource, key keys.Key, object map[string]any) uint64 {
	if err := strip(res, key, object); err != nil {
		return 0
	}
	return clean.Digest(object)
}

// strip removes from an object of the target what the API server adds, and what is the target's own. It bears the label
// of the replica then.
func strip(res *selection.Resource, key keys.Key, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	metadata["name"] = key.Name
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	return res.Rules(key.Namespace).Object(res.GroupResource(), object)
}

// Replacement returns what an object of somebody else would gain and lose if wanted replaced it, as a unified diff of
// YAML. It changes the object.
func Replacement(res *selection.Resource, key keys.Key, wanted, object map[string]any) string {
	if err := strip(res, key, object); err != nil {
		return ""
	}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	delete(labels, clean.Label)
	if len(labels) == 0 {
		delete(metadata, "labels")
	}
	return clean.DiffWhole(wanted, object)
}

// Member returns a text of the labels or annotations of an object.
func Member(metadata map[string]any, of, name string) string {
	texts, _ := metadata[of].(map[string]any)
	text, _ := texts[name].(string)
	return text
}

// Decode decodes an object of an API server. Its numbers keep all their digits.
func Decode(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	if _, ok := object["metadata"].(map[string]any); !ok {
		return nil, errors.New("an object without metadata")
	}
	return object, nil
}
