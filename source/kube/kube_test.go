// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial returns a client of a scripted server.
func dial(t *testing.T, s *kubetest.Script) *Client {
	t.Helper()
	client := must.Get(NewClient(s.Config()))(t)
	t.Cleanup(client.CloseIdleConnections)
	return client
}
