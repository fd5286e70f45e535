// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// dial returns a client of a scripted server.
func dial(t *testing.T, s *script) *Client {
	t.Helper()
	client := must.Get(NewClient(s.config()))(t)
	t.Cleanup(client.CloseIdleConnections)
	return client
}
