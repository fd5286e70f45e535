// SPDX-License-Identifier: Apache-2.0

package try_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

func TestRun_ends_at_the_first_error_and_does_what_is_left_in_reverse(t *testing.T) {
	wrong, said := errors.New("wrong"), ""
	say := func(text string, err error) func() error { return func() error { said += text; return err } }
	err := try.Run(func(s *try.Scope) {
		s.Finally(say("c", nil))
		s.Finally(say("b", errors.New("and more")))
		said += fmt.Sprint(try.Get(1, nil))
		try.Do(nil)
		inner := try.Run(func(s *try.Scope) { s.Finally(say("a", nil)); try.Get(2, wrong) })
		try.Do(inner)
		said += "never"
	})
	assert.True(t, errors.Is(err, wrong) && err.Error() == "wrong\nand more" && said == "1abc",
		"%v, said %q", err, said)
	defer func() {
		assert.True(t, recover() == "bug", "a panic of others does not go on")
	}()
	_ = try.Run(func(*try.Scope) { panic("bug") })
}
