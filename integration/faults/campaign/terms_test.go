// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/stretchr/testify/assert"
)

func TestTerms_are_of_one_process_each(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	says := func(second, number int) string {
		return fmt.Sprintf(`{"time":%q,"msg":"publishing","stream":"S"}`+"\n"+`{"time":%[1]q,"msg":"publishing","pipeline":"faults","writerepoch":%d}`+"\n",
			began.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano), number)
	}
	lost := []world.Event{{Kind: world.Fresh, At: began.Add(15 * time.Second)}, {Kind: world.LogDeleted, At: began.Add(25 * time.Second)}}
	for name, c := range map[string]struct {
		first, second string
		events        []world.Event
		wrong         int
	}{
		"each has its own":                     {says(1, 1) + says(20, 3), says(10, 2), nil, 0},
		"one publishes twice in its term":      {says(1, 1) + says(2, 1), says(10, 2), nil, 0},
		"two have the same":                    {says(1, 1), says(10, 1), nil, 1},
		"one has none":                         {says(1, 0), says(10, 1), nil, 1},
		"numbers are forgotten with the rest":  {says(1, 1), says(20, 1), lost, 0},
		"a log that is lost forgets no number": {says(20, 1), says(30, 1), lost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			texts := map[string][]byte{"bridge-001.log": []byte(c.first), "bridge-002.log": []byte(c.second), "checkpoint": []byte(says(5, 1))}
			assert.Len(t, sharedTerms(claims(texts), c.events), c.wrong, "wrong")
		})
	}
}
