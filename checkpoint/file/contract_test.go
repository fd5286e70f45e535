// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore_keeps_the_contract(t *testing.T) {
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return file.Open(place, want)
	})
}
