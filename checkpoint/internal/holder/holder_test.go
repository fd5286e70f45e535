// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse_reads_what_Text_writes(t *testing.T) {
	for _, h := range []Holder{Self(), {"a.b-c", "", "", 1}, {"", "x", "pid:[1]", 7}, {"a/b", "x", "", 7}, {}} {
		assert.Equal(t, h, Parse(h.Text()))
	}
	for _, text := range []string{"", "a", "1", "1/b", "1/b/c", "a/b/c/d"} {
		assert.Equal(t, Holder{}, Parse(text), text)
	}
}

func TestHolder_is_gone_if_its_process_has_ended_on_this_host(t *testing.T) {
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	runs := exec.Command("cat")
	in, err := runs.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, runs.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = runs.Wait()
	})
	self := Self()
	of := func(host, boot string, pid int) Holder { return Holder{host, boot, self.Space, pid} }
	for _, c := range []struct {
		name string
		of   Holder
		want bool
	}{
		{"this process", self, true},
		{"a process that has ended", of(self.Host, self.Boot, ended.Process.Pid), true},
		{"a process that runs", of(self.Host, self.Boot, runs.Process.Pid), false},
		{"a process of another host", of("another", self.Boot, ended.Process.Pid), false},
		{"a process before the host's last start", of(self.Host, "another", ended.Process.Pid), false},
		{"a process of that number in another container", Holder{self.Host, self.Boot, "pid:[1]", self.PID}, false},
		{"a process that has ended in another container", Holder{self.Host, self.Boot, "pid:[1]", ended.Process.Pid}, false},
		{"an unknown process", Holder{}, false},
	} {
		assert.Equal(t, c.want, c.of.Gone(), c.name)
	}
}

func TestHolder_has_a_name_for_people(t *testing.T) {
	assert.Equal(t, "process 12 on host a", Holder{"a", "b", "c", 12}.String())
	assert.Equal(t, "an unknown process", Holder{}.String())
}
