// SPDX-License-Identifier: Apache-2.0

package sequence_test

import (
	"os"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

func TestMain(m *testing.M) {
	testtier.Draws()
	os.Exit(m.Run())
}
