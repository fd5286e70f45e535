// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
