package scenarios;

import static scenarios.Stage.beside;
import static scenarios.Stage.bytes;
import static scenarios.Stage.eventually;
import static scenarios.Stage.result;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.zookeeper.CreateMode;

/** A session that ends while its client lives. */
final class Sessions {
    private Sessions() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("expiry", Sessions::expiry);
    }

    private static void expiry(Stage stage) throws Exception {
        CuratorFramework ann = stage.client();
        CuratorFramework bea = stage.client();
        Mailbox states = new Mailbox();
        Stage.listen(ann, states);
        ann.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL).forPath(stage.path("mine"), bytes("m"));
        InterProcessMutex held = new InterProcessMutex(ann, stage.path("lock"));
        InterProcessMutex wanted = new InterProcessMutex(bea, stage.path("lock"));
        held.acquire();
        LeaderLatch leader = new LeaderLatch(ann, stage.path("latch"), "ann");
        LeaderLatch next = new LeaderLatch(bea, stage.path("latch"), "bea");
        leader.start();
        leader.await();
        next.start();
        eventually(() -> next.getParticipants().size() == 2);
        CountDownLatch release = new CountDownLatch(1);
        Future<Boolean> waiting = beside(() -> {
            boolean got = wanted.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
            release.await();
            wanted.release();
            return got;
        });
        eventually(() -> held.getParticipantNodes().size() == 2);

        long session = ann.getZookeeperClient().getZooKeeper().getSessionId();
        stage.expire(ann);
        next.await();
        eventually(wanted::isAcquiredInThisProcess);
        stage.say("the lock and the leadership pass on:", wanted.isAcquiredInThisProcess(), next.hasLeadership());
        String state = states.take();
        stage.say("told at first:", state);
        while (!state.equals("LOST")) {
            state = states.take();
        }
        stage.say("at last:", state, "then", states.take());
        stage.say("new session:", ann.getZookeeperClient().getZooKeeper().getSessionId() != session,
                "the ephemeral is gone:", ann.checkExists().forPath(stage.path("mine")) == null);
        eventually(() -> next.getParticipants().size() == 2);
        stage.say("the leader of old stands in line again:", leader.hasLeadership(), leader.getLeader());
        held.release();
        Future<Boolean> again = beside(() -> {
            boolean got = held.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
            held.release();
            return got;
        });
        eventually(() -> wanted.getParticipantNodes().size() == 2);
        release.countDown();
        stage.say("and the holder of old:", result(waiting), result(again));
        next.close();
        leader.await();
        stage.say("leads again:", leader.hasLeadership());
        leader.close();
    }
}
