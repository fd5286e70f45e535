// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumber(t *testing.T) {
	for version, want := range map[string]uint64{
		"1": 1, "48113000": 48113000, "18446744073709551615": 1<<64 - 1,
		"": 0, "0": 0, "007": 0, "+7": 0, "-7": 0, "7x": 0, "x": 0, "7_0": 0, "18446744073709551616": 0,
	} {
		got, is := Number(version)
		assert.True(t, got == want && is == (want > 0), "%q is %d, %v", version, got, is)
	}
}
