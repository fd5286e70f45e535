// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asWriter) != "" {
		writer()
	}
	if os.Getenv(asMounter) != "" {
		mounter()
	}
	goleak.VerifyTestMain(m)
}
