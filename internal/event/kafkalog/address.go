// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// pattern is a topic, or several.
type pattern struct {
	text string
	// only says that it stands for one topic.
	only bool
	fits *regexp.Regexp
}

var (
	topicName   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
)

// parse reads the name or the pattern of a topic, as the sink does.
func parse(text string) (pattern, error) {
	if !topicName.MatchString(placeholder.ReplaceAllString(text, "x")) || strings.Trim(text, ".") == "" {
		return pattern{},
			fmt.Errorf("%q is not the name of a topic; use letters, digits, . _ and - (at most 249, not dots alone), "+
				"and {…} for a part that may be any", text)
	}
	var expression strings.Builder
	parts := placeholder.Split(text, -1)
	for i, part := range parts {
		if i > 0 {
			expression.WriteString(`[A-Za-z0-9._-]+`)
		}
		expression.WriteString(regexp.QuoteMeta(part))
	}
	fits, err := regexp.Compile("^" + expression.String() + "$")
	return pattern{text: text, only: len(parts) == 1, fits: fits}, err
}

// String names what is read.
func (p pattern) String() string {
	if p.only {
		return "topic " + p.text
	}
	return "topics " + p.text
}

// none says that there is no such topic.
func (p pattern) none() string {
	if p.only {
		return fmt.Sprintf("there is no topic %q", p.text)
	}
	return fmt.Sprintf("there is no topic that fits %q", p.text)
}

// CheckTopic returns what is wrong with the name or the pattern of a topic.
func CheckTopic(topic string) error {
	_, err := parse(topic)
	return err
}

// CheckBroker returns what is wrong with the address of a broker. It repeats none that may hold a secret.
func CheckBroker(address string) error {
	if strings.Contains(address, "@") {
		return errors.New("an address of a broker holds no user; write host:port, such as localhost:9092")
	}
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 || host == "" || strings.ContainsAny(host, "/ ") {
		return fmt.Errorf("%q is not the address of a broker; write host:port, such as localhost:9092", address)
	}
	return nil
}
