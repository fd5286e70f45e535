// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"
)

// Digest returns a hash of an object without the three annotations of its origin. Two objects with the same members
// have the same digest, whatever the order of the members; the order of lists counts. Numbers are hashed by their text.
// A member that is null counts as absent. The hash is the same in every process.
func Digest(object map[string]any) uint64 {
	return digest(object, "", 0)
}

// digest hashes a value. At is the member of the object, or of its metadata at depth 2, that leads to it.
func digest(v any, at string, depth int) uint64 {
	switch v := v.(type) {
	case map[string]any:
		var sum uint64 // of the members: it has no order
		for name, value := range v {
			if value == nil || depth == 2 && at == "annotations" &&
				(name == Origin || name == OriginUID || name == OriginSequence) {
				continue
			}
			next := ""
			if depth == 0 && name == "metadata" || depth == 1 && at == "metadata" {
				next = name
			}
			if next == "annotations" && onlyOrigin(value) {
				continue
			}
			sum += mix(mix(basis, hash(name)), digest(value, next, depth+1))
		}
		return mix(basis+'{', sum)
	case []any:
		h := basis + '['
		for _, element := range v {
			h = mix(h, digest(element, "", depth+1))
		}
		return mix(h, uint64(len(v)))
	case string:
		return mix(basis+'"', hash(v))
	case json.Number:
		return mix(basis+'0', hash(string(v)))
	default:
		return mix(basis+'v', hash(fmt.Sprint(v)))
	}
}

// onlyOrigin reports whether annotations are those of the origin, and nothing else.
func onlyOrigin(annotations any) bool {
	all, _ := annotations.(map[string]any)
	n := 0
	for _, name := range []string{Origin, OriginUID, OriginSequence} {
		if _, has := all[name]; has {
			n++
		}
	}
	return n > 0 && n == len(all)
}

const basis uint64 = 14695981039346656037

// hash is FNV-1a.
func hash(s string) uint64 {
	h := basis
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix is the finalizer of SplitMix64 over both: sums of its results do not cancel out.
func mix(h, v uint64) uint64 {
	h = (h ^ v) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Covers reports whether actual has every field of desired with the same value. Of a map, the members of desired count;
// one that is null may be absent. Lists need the same length, and are compared element by element. Numbers are the same
// if their texts are.
func Covers(desired, actual map[string]any) bool {
	return covers(desired, actual)
}

func covers(desired, actual any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		actual, isMap := actual.(map[string]any)
		if !isMap {
			return false
		}
		for name, value := range desired {
			own, has := actual[name]
			if value == nil && own == nil {
				continue
			}
			if !has || !covers(value, own) {
				return false
			}
		}
		return true
	case []any:
		actual, isList := actual.([]any)
		if !isList || len(actual) != len(desired) {
			return false
		}
		for i := range desired {
			if !covers(desired[i], actual[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(desired, actual)
	}
}

// Project returns the part of actual that is at the paths of desired: the fields that a write of desired is about, with
// the values that the API server has there. A list of another length than in desired is in it as a whole. The result
// shares values with actual, and is desired's equal if the server changed nothing.
func Project(desired, actual map[string]any) map[string]any {
	part, _ := project(desired, actual).(map[string]any)
	return part
}

// Diff returns what a write of desired would change in actual, as a unified diff of YAML. Fields that desired does not
// have are left as they are.
func Diff(desired, actual map[string]any) string { return DiffWhole(desired, Project(desired, actual)) }

// DiffWhole is [Diff] where desired replaces actual: fields that it does not have go.
func DiffWhole(desired, actual map[string]any) string {
	before, _ := yaml.Marshal(actual) // decoded JSON always has a YAML form
	after, _ := yaml.Marshal(desired)
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(before)), B: difflib.SplitLines(string(after)), FromFile: "target", ToFile: "source",
		Context: 3,
	})
	if err != nil {
		return fmt.Sprint(err)
	}
	return text
}

func project(desired, actual any) any {
	switch desired := desired.(type) {
	case map[string]any:
		from, isMap := actual.(map[string]any)
		if !isMap {
			return actual
		}
		part := make(map[string]any, len(desired))
		for name, value := range desired {
			if own, has := from[name]; has {
				part[name] = project(value, own)
			}
		}
		return part
	case []any:
		from, isList := actual.([]any)
		if !isList || len(from) != len(desired) {
			return actual
		}
		part := make([]any, len(desired))
		for i := range desired {
			part[i] = project(desired[i], from[i])
		}
		return part
	default:
		return actual
	}
}
