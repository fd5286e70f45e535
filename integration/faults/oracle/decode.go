// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// errUndecodable says that a stored object cannot be understood; it comes with the key and never with the value.
var errUndecodable = errors.New("decode object")

// Decode reads uid, labels, the content's hash and whether the deletion was asked for out of a stored object:
// built-in types are protobuf, custom resources JSON.
func Decode(value []byte) (Observation, error) {
	var object metav1.Object
	content := value
	if bytes.HasPrefix(value, []byte("k8s\x00")) {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
		if err != nil {
			return Observation{}, errors.New("its protobuf is of no type that client-go has")
		}
		if object, err = meta.Accessor(o); err != nil {
			return Observation{}, fmt.Errorf("read metadata: %w", err)
		}
		if content, err = json.Marshal(o); err != nil {
			return Observation{}, errors.New("it cannot be written as JSON")
		}
	} else {
		var o metav1.PartialObjectMetadata
		if json.Unmarshal(value, &o) != nil {
			return Observation{}, errors.New("it is neither protobuf nor JSON")
		}
		object = &o
	}
	if object.GetUID() == "" {
		return Observation{}, errors.New("it has no uid")
	}
	body, _, err := bodyOf(content)
	if err != nil {
		return Observation{}, err
	}
	return Observation{
		UID: string(object.GetUID()), Labels: object.GetLabels(), Body: body,
		Terminating: object.GetDeletionTimestamp() != nil,
	}, nil
}
