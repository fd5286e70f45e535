// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestDecode_reads_both_formats_of_etcd(t *testing.T) {
	var stored bytes.Buffer
	object := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{UID: "u1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"faults.example.com/change": "1.2"}},
	}
	require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &stored))
	body, _, err := bodyOf([]byte(`{"metadata":{"uid":"u1","labels":{"a":"b"},"annotations":{"faults.example.com/change":"1.2"}}}`))
	require.NoError(t, err)
	want := Observation{UID: "u1", Labels: map[string]string{"a": "b"}, Body: body}
	for name, value := range map[string][]byte{
		"protobuf": stored.Bytes(),
		"JSON":     []byte(`{"metadata":{"uid":"u1","labels":{"a":"b"},"annotations":{"faults.example.com/change":"1.2"}}}`),
	} {
		if got, err := decode(value); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	for name, value := range map[string]string{"no uid": `{"metadata":{}}`, "neither": "x", "an unknown type": "k8s\x00x"} {
		if got, err := decode([]byte(value)); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
