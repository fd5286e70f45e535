// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"

	kafkago "github.com/segmentio/kafka-go"
)

// CommitOffsets stores for a consumer group which offset of each partition of topics comes next, without being a member
// of the group. A group that has members refuses it.
func (c *Client) CommitOffsets(ctx context.Context, group string, next map[string]map[int32]int64) error {
	request := &kafkago.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafkago.OffsetCommit{}}
	wanted := 0
	for topic, partitions := range next {
		for partition, offset := range partitions {
			request.Topics[topic] = append(request.Topics[topic],
				kafkago.OffsetCommit{Partition: int(partition), Offset: offset})
			wanted++
		}
	}
	return c.do(ctx, "commit offsets of group "+group, "operation Read on Group "+group+", and on its Topics",
		func(ctx context.Context) error {
			res, err := c.client.OffsetCommit(ctx, request)
			if err != nil {
				return err
			}
			for _, partitions := range res.Topics {
				for _, p := range partitions {
					if p.Error != nil {
						return p.Error
					}
					wanted--
				}
			}
			if wanted != 0 {
				return errors.New("the answer has not all partitions")
			}
			return nil
		})
}
