// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGiven_names_flags_in_the_order_of_the_command_line(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.Flags().String("a", "", "")
	cmd.Flags().String("b", "", "")
	cmd.Flags().String("c", "", "")
	require.NoError(t, cmd.ParseFlags([]string{"--c=1", "x", "--a", "", "--c=2"}))
	assert.Equal(t, []string{"c", "a"}, Given(cmd))
}
