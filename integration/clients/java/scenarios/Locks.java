package scenarios;

import static scenarios.Stage.beside;
import static scenarios.Stage.bytes;
import static scenarios.Stage.eventually;
import static scenarios.Stage.result;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.zookeeper.data.Stat;

/** Curator's locks, whose holders are threads. */
final class Locks {
    private static final int CLIENTS = 4;
    private static final int ROUNDS = 40;

    private Locks() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("mutex", Locks::mutex);
        all.put("reentrancy", Locks::reentrancy);
        all.put("revocable", Locks::revocable);
        all.put("readwritelock", Locks::readWriteLock);
        all.put("semaphore", Locks::semaphore);
        all.put("multilock", Locks::multiLock);
    }

    private static boolean soon(InterProcessLock lock) throws Exception {
        return lock.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
    }

    /** Whether a lock is there to be had right now. */
    private static boolean now(InterProcessLock lock) throws Exception {
        return lock.acquire(0, TimeUnit.SECONDS);
    }

    private static void mutex(Stage stage) throws Exception {
        String path = stage.path("lock");
        CuratorFramework first = stage.client();
        InterProcessMutex held = new InterProcessMutex(first, path);
        InterProcessMutex wanted = new InterProcessMutex(stage.client(), path);
        stage.say("free:", soon(held), "taken:", wanted.acquire(100, TimeUnit.MILLISECONDS));
        CountDownLatch release = new CountDownLatch(1);
        Future<Boolean> waiting = beside(() -> {
            boolean got = soon(wanted);
            release.await();
            wanted.release();
            return got;
        });
        eventually(() -> held.getParticipantNodes().size() == 2);
        stage.say("participants:", held.getParticipantNodes());
        stage.tree(first, path);
        held.release();
        eventually(wanted::isAcquiredInThisProcess);
        stage.say("passed on:", held.getParticipantNodes());
        release.countDown();
        stage.say("the one who waited had it:", result(waiting));

        Room room = new Room();
        first.create().forPath(stage.path("count"), bytes("0"));
        List<Future<Boolean>> workers = new ArrayList<>();
        for (int i = 0; i < CLIENTS; i++) {
            CuratorFramework client = stage.client();
            InterProcessMutex lock = new InterProcessMutex(client, path);
            workers.add(beside(() -> {
                for (int round = 0; round < ROUNDS; round++) {
                    Stage.check(soon(lock), "no lock");
                    room.enter();
                    int count = Integer.parseInt(Stage.string(client.getData().forPath(stage.path("count"))));
                    client.setData().forPath(stage.path("count"), bytes(String.valueOf(count + 1)));
                    room.leave();
                    lock.release();
                }
                return true;
            }));
        }
        for (Future<Boolean> worker : workers) {
            result(worker);
        }
        stage.say(room.entries(), "entries, at most", room.most(), "at once, no update lost:",
                first.getData().forPath(stage.path("count")));
        InterProcessSemaphoreMutex plain = new InterProcessSemaphoreMutex(first, stage.path("plain"));
        stage.say("not reentrant:", soon(plain), now(plain));
        plain.release();
    }

    private static void reentrancy(Stage stage) throws Exception {
        InterProcessMutex lock = new InterProcessMutex(stage.client(), stage.path("lock"));
        InterProcessMutex other = new InterProcessMutex(stage.client(), stage.path("lock"));
        stage.say("three times:", soon(lock), now(lock), now(lock), "one node:", lock.getParticipantNodes().size());
        stage.say("another thread:", result(beside(() -> now(lock))), "another client:", now(other));
        stage.say("owned by this thread:", lock.isOwnedByCurrentThread(), result(beside(lock::isOwnedByCurrentThread)));
        lock.release();
        lock.release();
        stage.say("released twice:", lock.isAcquiredInThisProcess(), now(other));
        lock.release();
        stage.say("released thrice:", lock.isAcquiredInThisProcess(), now(other));
        stage.refused("released once more", lock::release);
        other.release();
    }

    private static void revocable(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        InterProcessMutex lock = new InterProcessMutex(client, stage.path("lock"));
        CountDownLatch asked = new CountDownLatch(1);
        lock.makeRevocable(which -> asked.countDown());
        CountDownLatch held = new CountDownLatch(1);
        Future<Boolean> holder = beside(() -> {
            soon(lock);
            held.countDown();
            boolean told = asked.await(Stage.SOON_SECONDS, TimeUnit.SECONDS);
            lock.release();
            return told;
        });
        held.await();
        CuratorFramework other = stage.client();
        InterProcessMutex wanted = new InterProcessMutex(other, stage.path("lock"));
        stage.say("taken:", now(wanted));
        for (String node : lock.getParticipantNodes()) {
            Revoker.attemptRevoke(other, node);
        }
        stage.say("the holder is asked:", result(holder), "and gives it up:", soon(wanted));
        wanted.release();
    }

    private static void readWriteLock(Stage stage) throws Exception {
        String path = stage.path("lock");
        InterProcessReadWriteLock ann = new InterProcessReadWriteLock(stage.client(), path);
        InterProcessReadWriteLock bea = new InterProcessReadWriteLock(stage.client(), path);
        InterProcessReadWriteLock cid = new InterProcessReadWriteLock(stage.client(), path);
        stage.say("two read:", soon(ann.readLock()), soon(bea.readLock()), "none writes:", now(cid.writeLock()));
        stage.say("who reads does not get to write:", ann.writeLock().acquire(100, TimeUnit.MILLISECONDS));
        CountDownLatch release = new CountDownLatch(1);
        Future<Boolean> writer = beside(() -> {
            boolean got = soon(cid.writeLock());
            release.await();
            cid.writeLock().release();
            return got;
        });
        eventually(() -> ann.readLock().getParticipantNodes().size() == 2
                && cid.writeLock().getParticipantNodes().size() == 1);
        stage.say("no reader overtakes a writer:", result(beside(() -> now(bea.readLock()))));
        ann.readLock().release();
        bea.readLock().release();
        eventually(() -> cid.writeLock().isAcquiredInThisProcess());
        stage.say("it writes:", cid.writeLock().getParticipantNodes(), "no reader:", now(ann.readLock()), now(bea.writeLock()));
        release.countDown();
        stage.say("done:", result(writer), now(ann.writeLock()), "who writes may read:", now(ann.readLock()));
        ann.writeLock().release();
        stage.say("still reads:", now(bea.readLock()), now(cid.writeLock()));
        ann.readLock().release();
        bea.readLock().release();
    }

    private static void semaphore(Stage stage) throws Exception {
        String path = stage.path("pool");
        CuratorFramework client = stage.client();
        InterProcessSemaphoreV2 ann = new InterProcessSemaphoreV2(client, path, 3);
        InterProcessSemaphoreV2 bea = new InterProcessSemaphoreV2(stage.client(), path, 3);
        ann.setNodeData(bytes("ann"));
        Lease one = ann.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
        Collection<Lease> two = bea.acquire(2, Stage.SOON_SECONDS, TimeUnit.SECONDS);
        stage.say("one and two of three:", one.getNodeName(), one.getData(), two.size(), ann.getParticipantNodes().size());
        stage.say("no more:", bea.acquire(100, TimeUnit.MILLISECONDS), ann.acquire(2, 100, TimeUnit.MILLISECONDS));
        Future<Lease> waiting = beside(() -> bea.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS));
        eventually(() -> children(client, path + "/locks") == 1);
        ann.returnLease(one);
        Lease next = result(waiting);
        stage.say("one comes back, another has it:", next.getNodeName(), bea.getParticipantNodes().size());
        bea.returnAll(two);
        bea.returnLease(next);
        stage.say("all back:", children(client, path + "/leases"));

        try (SharedCount size = new SharedCount(client, stage.path("size"), 1)) {
            size.start();
            InterProcessSemaphoreV2 elastic = new InterProcessSemaphoreV2(client, stage.path("elastic"), size);
            Lease only = elastic.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
            Future<Lease> second = beside(() -> elastic.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS));
            eventually(() -> elastic.getParticipantNodes().size() == 2);
            stage.say("one of one, the second waits:", !second.isDone());
            size.setCount(2);
            stage.say("of two:", result(second).getNodeName());
            elastic.returnLease(only);
        }

        Room room = new Room();
        List<Future<Boolean>> workers = new ArrayList<>();
        for (int i = 0; i < CLIENTS; i++) {
            InterProcessSemaphoreV2 pool = new InterProcessSemaphoreV2(stage.client(), stage.path("room"), 2);
            workers.add(beside(() -> {
                for (int round = 0; round < 10; round++) {
                    Lease lease = pool.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
                    room.enter();
                    client.checkExists().forPath(path);
                    room.leave();
                    pool.returnLease(lease);
                }
                return true;
            }));
        }
        for (Future<Boolean> worker : workers) {
            result(worker);
        }
        stage.say(room.entries(), "entries, never more than two:", room.most() <= 2);
    }

    /** How many children a node has; a container without any may be gone itself. */
    private static int children(CuratorFramework client, String path) throws Exception {
        Stat stat = client.checkExists().forPath(path);
        return stat == null ? 0 : stat.getNumChildren();
    }

    private static void multiLock(Stage stage) throws Exception {
        CuratorFramework client = stage.client();
        CuratorFramework other = stage.client();
        List<String> paths = Arrays.asList(stage.path("one"), stage.path("two"));
        InterProcessMultiLock both = new InterProcessMultiLock(client, paths);
        InterProcessMutex one = new InterProcessMutex(other, paths.get(0));
        InterProcessMutex two = new InterProcessMutex(other, paths.get(1));
        stage.say("both:", soon(both), now(one), now(two), both.isAcquiredInThisProcess());
        both.release();
        stage.say("one is taken:", now(two), "so none:", both.acquire(100, TimeUnit.MILLISECONDS));
        stage.say("the other is free again:", now(one));
        one.release();
        two.release();
        stage.say("both again:", soon(both));
        both.release();
    }
}
