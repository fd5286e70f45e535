// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
)

// One that does not run holds up no other one.
func TestResume_asks_all_replicas(t *testing.T) {
	all := []*replica.Replica{replica.New(replica.Config{Name: "mail"}), replica.New(replica.Config{Name: "shop"})}
	answer := httptest.NewRecorder()
	Handler(all, func() string { return "" }).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, ResumePath, nil))
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
	assert.Contains(t, answer.Body.String(), "resume mail: ")
	assert.Contains(t, answer.Body.String(), "resume shop: ")
}
