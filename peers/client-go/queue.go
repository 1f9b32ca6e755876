package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const workers = 4

// One producer adds every key, four workers take and finish them; a round ends when all are done.
func queue(count, items int) {
	keys := make([]string, count)
	for number := range keys {
		keys[number] = fmt.Sprintf("team-%d/object-%d", number%50, number)
	}
	rounds := max(items/count, 1)
	work := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	var done atomic.Int64
	finished := make(chan struct{}, 1)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				key, shutdown := work.Get()
				if shutdown {
					return
				}
				work.Done(key)
				if done.Add(1)%int64(count) == 0 {
					finished <- struct{}{}
				}
			}
		})
	}
	begun := time.Now()
	for range rounds {
		go func() {
			for _, key := range keys {
				work.Add(key)
			}
		}()
		<-finished
	}
	elapsed := time.Since(begun)
	work.ShutDown()
	group.Wait()
	total := rounds * count
	fmt.Printf("shell per_second=%.0f nanos=%.1f\n", float64(total)/elapsed.Seconds(), float64(elapsed.Nanoseconds())/float64(total))
}
