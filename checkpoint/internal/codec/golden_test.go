// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/stretchr/testify/assert"
)

// What a bridge has written is what the next version of it reads: these bytes do not change. What is new comes behind them, with a flag of its own.
func TestBytes_are_those_that_stores_have(t *testing.T) {
	var stream checkpoint.Stream
	fill(t, reflect.ValueOf(&stream).Elem())
	var log checkpoint.Log
	fill(t, reflect.ValueOf(&log).Elem())
	log.Marks[300] = 1 << 40
	before := log
	before.Epoch, before.Histories = 0, 0
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		"a stream":            {AppendStream(nil, &stream), "017801780701780701780178017801780178017801787f070178070178017801780178"},
		"a stream of nothing": {AppendStream(nil, &checkpoint.Stream{}), "00000000000000000000000000"},
		"a log before":        {AppendLog(nil, &before), "017807020707ac0280808080802001010707010701780101780178"},
		"a log":               {AppendLog(nil, &log), "017807020707ac02808080808020010107070107017801017801780707"},
	} {
		assert.Equal(t, c.want, hex.EncodeToString(c.got), "%s is written as", what)
	}
}
