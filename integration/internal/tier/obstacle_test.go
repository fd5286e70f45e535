// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"github.com/stretchr/testify/assert"
	"os"
	"testing"
)

func TestPossible_fails_a_test_only_where_CI_is_set_and_no_reason_is_given(t *testing.T) {
	const variable = "KUBE_EVENTBRIDGE_NO_ENGINE"
	for _, c := range []struct {
		ci, none string
		obstacle error
		skip     bool
		reason   string
	}{
		{},
		{ci: "true"},
		{obstacle: os.ErrNotExist, skip: true, reason: "file does not exist"},
		{ci: "true", obstacle: os.ErrNotExist, reason: "file does not exist"},
		{ci: "true", none: "no root", obstacle: os.ErrNotExist, skip: true, reason: "no root"},
		{none: "no root", skip: true, reason: "no root"},
	} {
		getenv := func(name string) string { return map[string]string{"CI": c.ci, variable: c.none}[name] }
		skip, reason := verdict(getenv, variable, func() error { return c.obstacle })
		assert.Equal(t, c.skip, skip, "with CI=%q %s=%q and %v", c.ci, variable, c.none, c.obstacle)
		assert.Equal(t, c.reason, reason, "with CI=%q %s=%q and %v", c.ci, variable, c.none, c.obstacle)
	}
}
