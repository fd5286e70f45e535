// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
)

func TestStore_is_left_to_the_process_that_uses_it(t *testing.T) {
	storetest.RunHolding(t, func(t *testing.T) storetest.ProcessOpener {
		f := newFake(3)
		return func(as holder.Holder, elected bool) (storetest.Shared, error) {
			return openFake(t.Context(), f, Config{Elected: elected, self: as}, audit)
		}
	})
}
