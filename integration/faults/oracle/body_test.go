// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"github.com/stretchr/testify/assert"
	"testing"
)

func TestBodyOf_tells_contents_apart_and_not_how_they_are_served(t *testing.T) {
	const (
		meta   = `"metadata":{"name":"a","uid":"u","labels":{"l":"1"}}`
		data   = `"data":{"y":"2","x":"1"}`
		served = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7",` +
			`"labels":{"l":"1"}},` + data + `}`
	)
	hash := func(object string) string {
		t.Helper()
		body, more, err := bodyOf([]byte(object))
		if err != nil || !more {
			t.Fatalf("%s: %v", object, err)
		}
		return body
	}
	for object, same := range map[string]bool{
		`{"metadata":{"name":"a","uid":"u","creationTimestamp":null,"labels":{"l":"1"},"annotations":{}},` + data + `}`: true,
		`{"metadata":{"name":"a","uid":"u","labels":{"l":"1"},"managedFields":[{}],` +
			`"annotations":{"` + lastApplied + `":"x"}},` + data + `}`: true,
		`{` + meta + `,"data":{"x":"1"}}`:                  false,
		`{` + meta + `,"data":{"x":"1","y":"3"}}`:          false,
		`{"metadata":{"name":"a","uid":"u"},` + data + `}`: false,
		`{` + meta + `,` + data + `,"immutable":true}`:     false,
	} {
		assert.Equal(t, same, hash(object) == hash(served), "%s: the same", object)
	}
	secret := func(values string) string {
		return hash(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"data":{` + values + `}}`)
	}
	both := secret(`"a":"eA==","b":"eQ=="`)
	if both != secret(`"a":"W3JlZGFjdGVkXQ==","b":"W3JlZGFjdGVkXQ=="`) || both == secret(`"a":"eA=="`) {
		t.Error("of a Secret the keys count, and not the values")
	}
	identity := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"}}`)
	if _, more, err := bodyOf(identity); more || err != nil {
		t.Errorf("an identity is taken for a whole object, or %v", err)
	}
	if _, _, err := bodyOf([]byte("x")); err == nil {
		t.Error("what is no object has a content")
	}
}
