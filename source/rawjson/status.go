// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ParseStatus decodes the object of an error frame. What is no Status becomes one that says so, with code 500.
func ParseStatus(raw []byte) *metav1.Status {
	status := &metav1.Status{}
	err := json.Unmarshal(raw, status)
	if err == nil && status.Kind != "Status" {
		err = fmt.Errorf("an object of kind %q", status.Kind)
	}
	if err == nil {
		return status
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  metav1.StatusReasonInternalError,
		Code:    http.StatusInternalServerError,
		Message: fmt.Sprintf("the API server sent an error that is no Status: %v", err),
	}
}
