package scenarios;

import static scenarios.Stage.beside;
import static scenarios.Stage.result;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Numbers that many change. */
final class Counters {
    private Counters() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("sharedcount", Counters::sharedCount);
        all.put("atomiclong", Counters::atomicLong);
    }

    private static void sharedCount(Stage stage) throws Exception {
        Mailbox heard = new Mailbox();
        try (SharedCount ann = new SharedCount(stage.client(), stage.path("count"), 7);
                SharedCount bea = new SharedCount(stage.client(), stage.path("count"), 9)) {
            bea.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader count, int value) {
                    heard.put(value);
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {
                    heard.put(state);
                }
            });
            ann.start();
            bea.start();
            stage.say("the first says how it begins:", ann.getCount(), bea.getCount());
            VersionedValue<Integer> old = ann.getVersionedValue();
            ann.setCount(20);
            stage.say("heard:", heard.take(), bea.getCount());
            stage.say("on top of an old one:", bea.trySetCount(old, 30), "of the new one:",
                    bea.trySetCount(bea.getVersionedValue(), 40), heard.take());
            Stage.eventually(() -> ann.getCount() == 40);
            stage.say("all know:", ann.getCount(), bea.getCount());
        }
    }

    private static void atomicLong(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        RetryNTimes often = new RetryNTimes(100_000, 1);
        DistributedAtomicLong number = new DistributedAtomicLong(client, stage.path("number"), often);
        stage.say("initialized:", number.initialize(5L), number.initialize(6L));
        say(stage, "increment", number.increment());
        say(stage, "add", number.add(10L));
        say(stage, "subtract", number.subtract(3L));
        say(stage, "wrong guess", number.compareAndSet(1L, 2L));
        say(stage, "right guess", number.compareAndSet(13L, 2L));
        say(stage, "get", number.get());
        number.forceSet(100L);
        say(stage, "set", number.get());
        CachedAtomicLong cached = new CachedAtomicLong(number, 10);
        say(stage, "cached", cached.next());
        say(stage, "cached", cached.next());
        stage.tree(client, stage.path());

        PromotedToLock lock = PromotedToLock.builder().lockPath(stage.path("lock")).retryPolicy(often)
                .timeout(Stage.SOON_SECONDS, TimeUnit.SECONDS).build();
        List<Future<Boolean>> workers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            // Two by trial and error, two that take a lock after the first error.
            DistributedAtomicLong shared = i < 2
                    ? new DistributedAtomicLong(stage.client(), stage.path("shared"), often)
                    : new DistributedAtomicLong(stage.client(), stage.path("shared"), new RetryNTimes(1, 1), lock);
            workers.add(beside(() -> {
                for (int done = 0; done < 20; ) {
                    done += shared.increment().succeeded() ? 1 : 0;
                }
                return true;
            }));
        }
        for (Future<Boolean> worker : workers) {
            result(worker);
        }
        say(stage, "four clients, twenty times each", new DistributedAtomicLong(client, stage.path("shared"), often).get());
    }

    private static void say(Stage stage, String what, AtomicValue<Long> value) {
        stage.say(what + ":", value.succeeded(), value.preValue(), "to", value.postValue());
    }
}
