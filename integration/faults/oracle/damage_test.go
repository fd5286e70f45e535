// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

const secret = "hX7pQ2mNv9LcT4rWz8KbY1sD"

// damages break a log that is right. They return false where this log has no place for them.
var damages = []struct {
	name    string
	promise Promise
	do      func(d *damaged) bool
}{
	{"drop the last entry of an object that lives", P1, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.last(i) && d.op(i) != Deleted })
	}},
	{"drop the last entry of an object that is gone", P1, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.last(i) && d.op(i) == Deleted && d.before(i) >= 0 && d.op(d.before(i)) != Deleted
		})
	}},
	{"drop a deletion", P2, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.op(i) == Deleted && d.before(i) >= 0 && d.op(d.before(i)) != Deleted })
	}},
	{"drop a deletion that a list found", P2, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.op(i) == Deleted && d.log[i].Reason == "relist" && d.before(i) >= 0 && d.op(d.before(i)) != Deleted
		})
	}},
	{"let another object take a name before the deletion", P2, func(d *damaged) bool {
		return d.swap(func(i, next int) bool {
			return d.op(i) == Deleted && d.op(next) == Added && d.log[i].UID != d.log[next].UID
		})
	}},
	{"drop an update that a newer one follows", P3, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.log[i].Reason == "watch" && d.op(i) == Updated && !d.last(i) })
	}},
	{"call an addition an update", P3, func(d *damaged) bool { return d.word(Added, Updated) }},
	{"call an update an addition", P3, func(d *damaged) bool { return d.word(Updated, Added) }},
	{"fold in a stream of every state", P3, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) { e.SampledRate = 2 })
	}},
	{"swap two states", P4, func(d *damaged) bool {
		return d.swap(func(i, next int) bool {
			return d.op(i) != Deleted && d.op(next) != Deleted
		})
	}},
	{"tell a state that never was", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) {
			n, _ := numbersOf(e.Sequence)
			n.version, e.ResourceVersion = 99999, "99999"
			e.number(n, "")
		})
	}},
	{"tell of an object that never was", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Added }, func(e *Entry) { e.Name = "other" })
	}},
	{"repeat an entry", P5, func(d *damaged) bool { return d.repeat(func(*Entry) {}) }},
	{
		"repeat an event under another message id", P5,
		func(d *damaged) bool { return d.repeat(func(e *Entry) { e.MsgID += "x" }) },
	},
	{"repeat a state under another id", P5, func(d *damaged) bool {
		return d.repeat(func(e *Entry) { e.MsgID += ".r1"; e.ID += ".r1" })
	}},
	{"give an event another id", P5, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.ID = "x" + e.ID })
	}},
	{"give an event an id that is not of its sequence", P5, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) {
			n, _ := numbersOf(e.Sequence)
			n.version++
			e.Sequence = n.String()
		})
	}},
	{"give an event another epoch", P6, func(d *damaged) bool { return d.renumber(func(n *numbers) { n.epoch++ }, nil) }},
	{"give an event the epoch before", P6, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.epoch = 1000 }, func(i int) bool {
			n, _ := numbersOf(d.log[i].Sequence)
			return n.epoch > 1000 && (d.op(i) != Deleted || d.log[i].Reason == "watch")
		})
	}},
	{"let a sequence go back", P4, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.version = 1 }, func(i int) bool {
			return d.before(i) >= 0 && d.epoch(i) == d.epoch(d.before(i))
		})
	}},
	{"let an epoch go back", P4, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.epoch -= 1000 }, func(i int) bool { return d.before(i) >= 0 })
	}},
	{"give a deletion step 0", P5, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.step = stepState }, func(i int) bool { return d.op(i) == Deleted })
	}},
	{"give a state step 1", P5, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.step = stepEnd }, func(i int) bool { return d.op(i) != Deleted })
	}},
	{"give a state another version than its own", P5, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.version += 1000 }, func(i int) bool { return d.op(i) != Deleted })
	}},
	{"give a sequence another form", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.Sequence = e.Sequence[1:] })
	}},
	{"give a marker a sequence", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].mark() }, func(e *Entry) { e.Sequence = numbers{}.String() })
	}},
	{"give an event an attribute of another form", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) {
			e.Headers = map[string][]string{"ce-history": {"1"}}
		})
	}},
	{"let an epoch of a marker fall behind", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) { d.markEpoch(e, 999) })
	}},
	{"begin an epoch at a gap without a cause for it", P6, func(d *damaged) bool {
		begins := func(i int) bool { return d.log[i].Type == typeGap && bodyOfMark(&d.log[i]).Cause != Expired }
		return d.change(begins, func(e *Entry) {
			e.Data = bytes.Replace(e.Data, []byte(bodyOfMark(e).Cause), []byte(Expired), 1)
		})
	}},
	{"give a gap another cause than there is", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) {
			e.Data = bytes.Replace(e.Data, []byte(bodyOfMark(e).Cause), []byte("bad luck"), 1)
		})
	}},
	{"have consumers keep a ghost", P9, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.last(i) && d.op(i) == Deleted && d.before(i) >= 0 && d.op(d.before(i)) != Deleted
		})
	}},
	{"have consumers miss the last state", P9, func(d *damaged) bool {
		return d.renumber(func(n *numbers) { n.epoch -= 1000 }, func(i int) bool {
			return d.last(i) && d.op(i) != Deleted && d.before(i) >= 0
		})
	}},
	{"have consumers miss what has the sequence of the end before it", P9, func(d *damaged) bool {
		i := d.pick(func(i int) bool {
			return d.last(i) && d.op(i) != Deleted && d.before(i) >= 0 && d.op(d.before(i)) == Deleted
		})
		if i < 0 {
			return false
		}
		d.log[i].Sequence = d.log[d.before(i)].Sequence
		return true
	}},
	{"tell too many changes in one event", P3, func(d *damaged) bool {
		d.options.Latest = map[Stream]bool{plain: true, selective: true}
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) { e.SampledRate = 99 })
	}},
	{"repair a log that was not taken away", P3, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) { e.Reason = "repair" })
	}},
	{"give a deletion that a list found an older version", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.older(i) != nil }, func(e *Entry) {
			version := d.older(int(e.Place) - 1).ResourceVersion //nolint:gosec // few
			e.Data = bytes.Replace(e.Data, []byte(`"`+e.ResourceVersion+`"`), []byte(`"`+version+`"`), 1)
			e.ResourceVersion = version
		})
	}},
	{"change what an object contains", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Body != "" }, func(e *Entry) { e.Body = "another" })
	}},
	{"leave all of an object out but its identity", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Body != "" && d.op(i) != Deleted }, func(e *Entry) { e.Body = "" })
	}},
	{"give an object another kind", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) {
			e.Data = bytes.Replace(e.Data, []byte(`"kind":"`), []byte(`"kind":"Other`), 1)
		})
	}},
	{"give an object another apiVersion", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) {
			e.Data = bytes.Replace(e.Data, []byte(`v1","kind`), []byte(`v2","kind`), 1)
		})
	}},
	{"put an entry under another pipeline", P4, func(d *damaged) bool {
		d.options.Pipeline = "p"
		for i := range d.log {
			d.log[i].Pipeline = "p"
		}
		return d.change(func(int) bool { return true }, func(e *Entry) { e.Pipeline = "q" })
	}},
	{"give an entry an unknown type", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) { e.Type = "com.example.changed" })
	}},
	{"put an entry under another subject of NATS", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) { e.Address = "k8s.test.core.pods.ns.a" })
	}},
	{"give an entry another partitionkey", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) { e.PartitionKey += "x" })
	}},
	{"repeat a marker", P5, func(d *damaged) bool {
		return d.repeatWhere(func(i int) bool { return d.op(i) == "" }, func(*Entry) {})
	}},
	{"announce a gap without a cause", P6, func(d *damaged) bool {
		d.options.Gaps = nil
		return slices.ContainsFunc(d.log, func(e Entry) bool { return e.Type == typeGap })
	}},
	{"let a gap begin before the first list", P6, func(d *damaged) bool {
		return d.change(func(i int) bool {
			return d.log[i].Type == typeGap && d.first(i) && bodyOfMark(&d.log[i]).Cause != CheckpointLost
		}, func(e *Entry) { d.moveFrom(e, "99") })
	}},
	{"let a gap begin at 0", P6, func(d *damaged) bool {
		return d.change(func(i int) bool {
			return d.log[i].Type == typeGap && d.first(i) && bodyOfMark(&d.log[i]).Cause != CheckpointLost
		}, func(e *Entry) { d.moveFrom(e, "0") })
	}},
	{"remove the marker of a gap that hides something", P6, func(d *damaged) bool { return d.drop(d.hides) }},
	{"remove the marker of a gap whose list found something", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.log[i].Type == typeGap && d.relists(i) })
	}},
	{"remove the marker behind what was recovered", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			after := slices.ContainsFunc(d.log[i+1:], func(e Entry) bool {
				return e.Type == typeGap &&
					e.Source == d.log[i].Source
			})
			return d.log[i].Type == typeGap && !after && i > 0 && d.log[i-1].Reason == "recovered"
		})
	}},
	{"begin an epoch without a gap", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.log[i].Type == typeGap && bodyOfMark(&d.log[i]).Cause != Expired && d.relists(i)
		})
	}},
	{"let a gap begin later", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.hides(i) && d.first(i) }, func(e *Entry) {
			d.moveFrom(e, e.ResourceVersion)
		})
	}},
	{"let a gap end before it begins", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) { d.moveFrom(e, "999999999") })
	}},
	{"let a gap hide versions that never were", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) {
			to := e.ResourceVersion
			e.ResourceVersion = "999999999"
			e.ID = strings.Replace(e.ID, "-"+to, "-999999999", 1)
			e.Data = bytes.Replace(e.Data, []byte(`"to":"`+to), []byte(`"to":"999999999`), 1)
		})
	}},
	{"leave out of a marker when it was recorded", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == "" }, func(e *Entry) { e.Recorded = time.Time{} })
	}},
	{"garble a gap's data", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) { e.Data = []byte("{") })
	}},
	{"put a gap behind what its list found", P6, func(d *damaged) bool {
		for i := range len(d.log) - 1 {
			if d.log[i].Type == typeGap && d.log[i+1].Reason == "relist" {
				d.log[i].Place, d.log[i+1].Place = d.log[i+1].Place, d.log[i].Place
				return true
			}
		}
		return false
	}},
	{"buffer more than the limit", P7, func(d *damaged) bool {
		d.options.BufferLimit, d.options.Samples = 100, []Sample{{BufferedBytes: 100}, {BufferedBytes: 101}}
		return true
	}},
	{"take more memory than the limit", P7, func(d *damaged) bool {
		d.options.RSSLimit, d.options.Samples = 100, []Sample{{RSS: 100}, {RSS: 101}}
		return true
	}},
	{"show a secret in data", P8, func(d *damaged) bool { d.log[0].Data = []byte(`{"x":"` + secret + `"}`); return true }},
	{"show a secret in a header's value", P8, func(d *damaged) bool {
		d.log[0].Headers = map[string][]string{"x": {base64.StdEncoding.EncodeToString([]byte("a" + secret + "b"))}}
		return true
	}},
	{"show a secret in a header's name", P8, func(d *damaged) bool {
		d.log[0].Headers = map[string][]string{"x-" + secret: nil}
		return true
	}},
	{"show a secret in a text", P8, func(d *damaged) bool {
		d.options.Texts = map[string][]byte{"stderr": []byte("begin " + secret[3:15] + " end")}
		return true
	}},
}

// damaged is a log that is about to be broken.
type damaged struct {
	t       *rapid.T
	truth   *Truth
	log     []Entry
	options Options
	done    bool // the log had a place for it
}

func (d *damaged) op(i int) Op {
	op, _ := d.log[i].operation()
	return op
}

func (d *damaged) same(i, j int) bool {
	return d.op(i) != "" && d.op(j) != "" && d.log[i].Source == d.log[j].Source && d.log[i].key() == d.log[j].key()
}

func (d *damaged) before(i int) int {
	for j := i - 1; j >= 0; j-- {
		if d.same(i, j) {
			return j
		}
	}
	return -1
}

// older is the entry before the last one of an object that a list found missing, if that has the same owner. Where etcd
// was restored its version may also be that of a deletion.
func (d *damaged) older(i int) *Entry {
	last := d.before(i)
	if len(d.truth.Histories) > 1 || d.op(i) != Deleted || d.log[i].Reason != "relist" || last < 0 || d.before(last) < 0 {
		return nil
	}
	if e := &d.log[d.before(last)]; e.UID == d.log[i].UID && d.log[last].UID == e.UID && d.op(last) != Deleted &&
		d.op(d.before(last)) != Deleted {
		return e
	}
	return nil
}

func (d *damaged) last(i int) bool {
	for j := i + 1; j < len(d.log); j++ {
		if d.same(i, j) {
			return false
		}
	}
	return d.op(i) != ""
}

// hides: a gap that something is missing in.
func (d *damaged) hides(i int) bool {
	return d.log[i].Type == typeGap && slices.ContainsFunc(Judge(d.truth, d.log, Options{Gaps: AnyGap}).Gaps,
		func(g GapFigure) bool {
			return g.Place == d.log[i].Place && g.Hidden > 0
		})
}

func (d *damaged) relists(i int) bool {
	return i+1 < len(d.log) && d.log[i+1].Reason == "relist" && d.log[i+1].Source == d.log[i].Source
}

func (d *damaged) pick(fits func(int) bool) int {
	var places []int
	for i := range d.log {
		if fits(i) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return -1
	}
	return rapid.SampledFrom(places).Draw(d.t, "place")
}

func (d *damaged) change(fits func(int) bool, do func(*Entry)) bool {
	i := d.pick(fits)
	if i >= 0 {
		do(&d.log[i])
	}
	return i >= 0
}

func (d *damaged) drop(fits func(int) bool) bool {
	i := d.pick(fits)
	if i >= 0 {
		d.log = slices.Delete(d.log, i, i+1)
	}
	return i >= 0
}

func (d *damaged) swap(fits func(i, next int) bool) bool {
	next := d.pick(func(next int) bool { i := d.before(next); return i >= 0 && fits(i, next) })
	if next >= 0 {
		i := d.before(next)
		d.log[i].Place, d.log[next].Place = d.log[next].Place, d.log[i].Place
	}
	return next >= 0
}

func (d *damaged) word(from, to Op) bool {
	return d.change(func(i int) bool { return d.op(i) == from && d.log[i].Reason == "watch" },
		func(e *Entry) { e.Type = strings.Replace(e.Type, string(from), string(to), 1) })
}

func (d *damaged) repeat(do func(*Entry)) bool {
	return d.repeatWhere(func(i int) bool { return d.op(i) != "" }, do)
}

func (d *damaged) repeatWhere(fits func(int) bool, do func(*Entry)) bool {
	i := d.pick(fits)
	if i < 0 {
		return false
	}
	e := d.log[i]
	do(&e)
	d.log = slices.Insert(d.log, i+1, e)
	for i := range d.log {
		d.log[i].Place = uint64(i + 1)
	}
	return true
}

func (d *damaged) moveFrom(e *Entry, to string) {
	from := bodyOfMark(e).From
	e.ID = strings.Replace(e.ID, "."+from+"-", "."+to+"-", 1)
	e.Data = bytes.Replace(e.Data, []byte(`"from":"`+from), []byte(`"from":"`+to), 1)
}

func (d *damaged) markEpoch(e *Entry, to uint64) {
	was := epochOf(e)
	e.ID = strings.Replace(e.ID, fmt.Sprintf(".%d.", was), fmt.Sprintf(".%d.", to), 1)
	e.Data = bytes.Replace(e.Data, fmt.Appendf(nil, `"epoch":%d`, was), fmt.Appendf(nil, `"epoch":%d`, to), 1)
}

// first reports whether a gap stands before any restoration.
func (d *damaged) first(i int) bool {
	return !slices.ContainsFunc(d.log[:i+1], func(e Entry) bool {
		cause := bodyOfMark(&e).Cause
		return e.Source == d.log[i].Source && (cause == Restored || cause == Rebuilt)
	})
}

func (d *damaged) epoch(i int) uint64 {
	n, _ := numbersOf(d.log[i].Sequence)
	return n.epoch
}

// renumber gives an event another sequence, and the id that goes with it.
func (d *damaged) renumber(do func(*numbers), fits func(int) bool) bool {
	return d.change(func(i int) bool { return d.op(i) != "" && (fits == nil || fits(i)) }, func(e *Entry) {
		n, _ := numbersOf(e.Sequence)
		do(&n)
		e.number(n, "")
	})
}

func TestCheck_names_the_promise_that_a_damaged_log_breaks(t *testing.T) {
	seed := 0 // a fresh one at night
	if os.Getenv(testtier.Variable) == "nightly" {
		seed = int(time.Now().Unix())
	}
	wanted := testtier.Rounds(10, 20, 500)
	for _, damage := range damages {
		t.Run(damage.name, func(t *testing.T) {
			logs := rapid.Custom(func(t *rapid.T) *damaged {
				truth := drawTruth(t, rapid.IntRange(0, 1).Draw(t, "restorations"))
				d := &damaged{
					t: t, truth: truth, log: drawLog(t, truth),
					options: Options{Gaps: AnyGap, Seed: 11, Canaries: NewCanaries(secret)},
				}
				d.done = damage.do(d)
				return d
			})
			applied, end := 0, seed+100*wanted
			for seed := seed; applied < wanted && seed < end; seed++ {
				if d := logs.Example(seed); d.done {
					applied++
					d.mustBreak(t, damage.promise, seed)
				}
			}
			assert.Equal(t, wanted, applied, "logs that could be damaged")
		})
	}
}

// mustBreak fails where the judge does not name the promise that the damage breaks.
func (d *damaged) mustBreak(t *testing.T, promise Promise, seed int) {
	t.Helper()
	found := Check(d.truth, d.log, d.options)
	i := slices.IndexFunc(found, func(v Violation) bool { return v.Promise == promise })
	require.GreaterOrEqual(t, i, 0, "log %d: want a violation of %s, got %v", seed, promise, found)
	if s := found[i].String(); !strings.Contains(s, "seed 11") || strings.Contains(s, secret) {
		t.Errorf("log %d: a violation must have the seed and no secret, got %s", seed, s)
	}
}

func TestCanaries_are_found_in_every_disguise_and_nothing_else_is(t *testing.T) {
	c := NewCanaries("0123456789abcdefghij", secret)
	for name, s := range map[string]string{
		"raw":             secret,
		"first bytes":     secret[:piece],
		"last bytes":      secret[len(secret)-piece:],
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, one off": base64.StdEncoding.EncodeToString([]byte("{" + secret + "}")),
		"base64, two off": base64.StdEncoding.EncodeToString([]byte("{{" + secret)),
		"hex":             hex.EncodeToString([]byte(secret)),
		"piece of hex":    hex.EncodeToString([]byte(secret))[5 : 5+2*piece],
		"quoted":          strconv.Quote(secret),
	} {
		for _, around := range []string{"", "x", "some text that is no secret"} {
			found := c.Find([]byte(around + s + around))
			assert.True(t, len(found) == 1 && strings.HasPrefix(found[0], "secret 1,"), "%s: found %v", name, found)
		}
	}
	if found := c.Find([]byte(secret[:piece-1] + " W3JlZGFjdGVkXQ== " + secret[piece:2*piece-1] +
		hex.EncodeToString([]byte(secret))[:2*piece-1] + " 12:03:04." +
		hex.EncodeToString([]byte(secret))[3*piece:4*piece])); found != nil {
		t.Errorf("found %v in a text without a piece", found)
	}
}

func TestCanaries_search_finds_what_lies_across_two_reads(t *testing.T) {
	c := NewCanaries(secret)
	long := strings.Repeat("x", 1<<20-piece/2) + secret[:piece+3] + strings.Repeat("y", 1<<20)
	for _, r := range []string{long, long[7:], secret} {
		found, err := c.Search("the file", iotest.HalfReader(strings.NewReader(r)))
		assert.True(t, err == nil && len(found) != 0 && strings.Contains(found[0].String(), "the file"),
			"found %v, %v", found, err)
	}
	assert.Nil(t, must.Get(c.Search("the file", strings.NewReader(strings.Repeat("x", 3<<20))))(t), "found")
}
