// SPDX-License-Identifier: Apache-2.0

package value

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
)

// Size is a number of bytes, written as Kubernetes writes quantities: 256Mi, 1G, 1048576.
type Size int64

// SizeForm says how a size is written.
const SizeForm = "write a number of bytes as Kubernetes does, such as 256Mi, 1G or 1048576"

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	q, err := resource.ParseQuantity(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a size; %s", text, SizeForm)
	}
	n := q.Value() // rounded, and capped
	if q.CmpInt64(n) != 0 || n < 0 {
		return fmt.Errorf("%q is not a whole, positive number of bytes; %s", text, SizeForm)
	}
	*s = Size(n)
	return nil
}

// String returns the size as Kubernetes writes it.
func (s Size) String() string { return resource.NewQuantity(int64(s), resource.BinarySI).String() }

// Limit is a number of objects, or a part of them in percent, written as 50 or 20%.
type Limit struct {
	Number  int
	Percent bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) error {
	digits, percent := strings.CutSuffix(string(text), "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case err != nil:
		return rules.ErrNot
	case percent && n > 100:
		return fmt.Errorf("%s is out of range; write 0%% to 100%%", text)
	}
	*l = Limit{int(n), percent}
	return nil
}

// String returns the limit as it is written in the file.
func (l Limit) String() string {
	if l.Percent {
		return strconv.Itoa(l.Number) + "%"
	}
	return strconv.Itoa(l.Number)
}
