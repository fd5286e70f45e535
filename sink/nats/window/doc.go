// SPDX-License-Identifier: Apache-2.0

// Package window keeps the messages that a broker has not acknowledged, and finds each by the subject of its answer.
package window
