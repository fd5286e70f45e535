// SPDX-License-Identifier: Apache-2.0

package oracle

import "testing"

func TestBodyOf_tells_contents_apart_and_not_how_they_are_served(t *testing.T) {
	const served = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"l":"1"}},"data":{"x":"1","y":"2"}}`
	hash := func(object string) string {
		t.Helper()
		body, more, err := bodyOf([]byte(object))
		if err != nil || !more {
			t.Fatalf("%s: %v", object, err)
		}
		return body
	}
	for object, same := range map[string]bool{
		`{"metadata":{"name":"a","uid":"u","creationTimestamp":null,"labels":{"l":"1"},"annotations":{}},"data":{"y":"2","x":"1"}}`:                      true,
		`{"metadata":{"name":"a","uid":"u","labels":{"l":"1"},"managedFields":[{}],"annotations":{"` + lastApplied + `":"x"}},"data":{"y":"2","x":"1"}}`: true,
		`{"metadata":{"name":"a","uid":"u","labels":{"l":"1"}},"data":{"x":"1"}}`:                                                                        false,
		`{"metadata":{"name":"a","uid":"u","labels":{"l":"1"}},"data":{"x":"1","y":"3"}}`:                                                                false,
		`{"metadata":{"name":"a","uid":"u"},"data":{"x":"1","y":"2"}}`:                                                                                   false,
		`{"metadata":{"name":"a","uid":"u","labels":{"l":"1"}},"data":{"x":"1","y":"2"},"immutable":true}`:                                               false,
	} {
		if got := hash(object) == hash(served); got != same {
			t.Errorf("%s: the same is %t, want %t", object, got, same)
		}
	}
	secret := func(values string) string {
		return hash(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"data":{` + values + `}}`)
	}
	if secret(`"a":"eA==","b":"eQ=="`) != secret(`"a":"W3JlZGFjdGVkXQ==","b":"W3JlZGFjdGVkXQ=="`) || secret(`"a":"eA=="`) == secret(`"a":"eA==","b":"eQ=="`) {
		t.Error("of a Secret the keys count, and not the values")
	}
	if _, more, err := bodyOf([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"}}`)); more || err != nil {
		t.Errorf("an identity is taken for a whole object, or %v", err)
	}
	if _, _, err := bodyOf([]byte("x")); err == nil {
		t.Error("what is no object has a content")
	}
}
