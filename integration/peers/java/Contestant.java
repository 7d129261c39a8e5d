import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;

/** Curator's locks, behind the line protocol of the Go package contestant. */
public final class Contestant {
    private static final long GRACE_NANOS = TimeUnit.SECONDS.toNanos(20);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String kind;
    private final String[] servers;
    private final int sessionMillis;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private Waiting waiting;

    /** A lock as one worker sees it. */
    interface Door {
        /** Waits for the lock and returns what releases it. */
        AutoCloseable enter() throws Exception;
    }

    private Contestant(String kind, String[] servers, int sessionMillis) {
        this.kind = kind;
        this.servers = servers;
        this.sessionMillis = sessionMillis;
    }

    public static void main(String[] args) throws Exception {
        String kind = "";
        String server = "";
        int session = 10_000;
        for (int i = 0; i + 1 < args.length; i += 2) {
            switch (args[i]) {
                case "--kind":
                    kind = args[i + 1];
                    break;
                case "--server":
                    server = args[i + 1];
                    break;
                case "--session-ms":
                    session = Integer.parseInt(args[i + 1]);
                    break;
                default: // for other contestants
            }
        }
        Contestant contestant = new Contestant(kind, server.split(","), session);
        // Nothing else may write among the answers.
        PrintStream answers = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode result;
            try {
                result = contestant.play(JSON.readTree(line));
            } catch (Exception e) {
                result = JSON.createObjectNode().put("error", e.toString());
            }
            answers.println(JSON.writeValueAsString(result));
        }
        for (CuratorFramework client : contestant.clients) {
            client.close();
        }
        System.exit(0); // this ends threads that wait for a lock
    }

    private ObjectNode play(JsonNode turn) throws Exception {
        String what = turn.path("do").asText();
        switch (what) {
            case "cycles":
                return cycles(turn);
            case "queue":
                waiting = new Waiting(turn);
                return JSON.createObjectNode();
            case "pass":
                return waiting.pass(turn);
            case "hold":
            case "acquire":
                long start = System.nanoTime();
                AutoCloseable release = door(0, 0, turn).enter();
                double seconds = (System.nanoTime() - start) / 1e9;
                if (what.equals("acquire")) {
                    release.close();
                }
                return JSON.createObjectNode().put("cycles", 1).put("seconds", seconds);
            default:
                throw new IllegalArgumentException(kind + " cannot " + what);
        }
    }

    private CuratorFramework client(int i) throws Exception {
        while (clients.size() <= i) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                    servers[clients.size() % servers.length], sessionMillis, 60_000, new RetryOneTime(100));
            client.start();
            if (!client.blockUntilConnected(1, TimeUnit.MINUTES)) {
                throw new IllegalStateException("not connected after a minute");
            }
            clients.add(client);
        }
        return clients.get(i);
    }

    private Door door(int worker, int client, JsonNode turn) throws Exception {
        CuratorFramework curator = client(client);
        String lock = turn.path("locks").get(worker).asText();
        switch (kind) {
            case "curator-mutex": {
                InterProcessMutex mutex = new InterProcessMutex(curator, "/curator/" + lock);
                return () -> {
                    mutex.acquire();
                    return mutex::release;
                };
            }
            case "curator-rw": {
                InterProcessReadWriteLock both = new InterProcessReadWriteLock(curator, "/curator-rw/" + lock);
                InterProcessMutex one = turn.path("shared").asBoolean() ? both.readLock() : both.writeLock();
                return () -> {
                    one.acquire();
                    return one::release;
                };
            }
            case "curator-semaphore": {
                int permits = Math.max(1, turn.path("permits").asInt());
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(curator, "/curator-semaphores/" + lock, permits);
                return () -> {
                    Lease lease = semaphore.acquire();
                    return () -> semaphore.returnLease(lease);
                };
            }
            default:
                throw new IllegalArgumentException("there is no contestant " + kind);
        }
    }

    private ObjectNode cycles(JsonNode turn) throws Exception {
        int n = turn.path("locks").size();
        int crowd = turn.path("clients").asInt() > 0 ? turn.path("clients").asInt() : n;
        Worker[] workers = new Worker[n];
        for (int i = 0; i < n; i++) {
            workers[i] = new Worker(door(i, i % crowd, turn), turn);
        }
        double seconds = turn.path("seconds").asDouble();
        long before = processor();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (Worker w : workers) {
            w.end = end;
            w.setDaemon(true);
            w.start();
        }
        int stuck = 0;
        for (Worker w : workers) {
            long left = end + GRACE_NANOS - System.nanoTime();
            w.join(Math.max(1, left / 1_000_000));
            if (w.isAlive()) {
                w.interrupt();
                stuck++;
            }
        }
        long cpu = processor() - before;
        int done = 0;
        int late = 0;
        int errors = stuck;
        int violations = 0;
        String first = stuck > 0 ? stuck + " workers did not come to an end" : null;
        long[] took = new long[0];
        for (Worker w : workers) {
            synchronized (w) {
                done += w.count;
                late += w.late;
                errors += w.errors;
                violations += w.violations;
                if (first == null) {
                    first = w.first;
                }
                int at = took.length;
                took = Arrays.copyOf(took, at + w.count);
                System.arraycopy(w.took, 0, took, at, w.count);
            }
        }
        ObjectNode result = JSON.createObjectNode().put("cycles", done).put("late", late).put("seconds", seconds);
        result.put("cpu_ms", cpu / 1e6).put("errors", errors).put("violations", violations);
        if (first != null) {
            result.put("first_error", first);
        }
        return spread(result, took);
    }

    /** One that wants a lock, again and again. */
    private static final class Worker extends Thread {
        private final Door door;
        private final long workNanos;
        private final int permits;
        private final Path check;
        private long end;
        private int count;
        private int late;
        private int errors;
        private int violations;
        private String first;
        private long[] took = new long[1024];

        Worker(Door door, JsonNode turn) {
            this.door = door;
            workNanos = turn.path("work_us").asLong() * 1000;
            permits = Math.max(1, turn.path("permits").asInt());
            String dir = turn.path("check").asText("");
            check = dir.isEmpty() ? null : Path.of(dir);
        }

        @Override
        public void run() {
            while (System.nanoTime() < end && !isInterrupted()) {
                try {
                    cycle();
                } catch (Exception e) {
                    synchronized (this) {
                        errors++;
                        if (first == null) {
                            first = e.toString();
                        }
                    }
                }
            }
        }

        private void cycle() throws Exception {
            long asked = System.nanoTime();
            AutoCloseable release = door.enter();
            long got = System.nanoTime();
            Path place = check == null ? null : inside();
            rest(workNanos);
            if (place != null) {
                Files.delete(place);
            }
            long done = System.nanoTime();
            release.close();
            long now = System.nanoTime();
            synchronized (this) {
                if (now >= end) {
                    late++;
                    return;
                }
                if (count == took.length) {
                    took = Arrays.copyOf(took, 2 * count);
                }
                took[count++] = got - asked + now - done;
            }
        }

        private Path inside() throws Exception {
            for (int i = 0; i < permits; i++) {
                try {
                    return Files.createFile(check.resolve("place-" + i));
                } catch (FileAlreadyExistsException e) {
                    // somebody else's
                }
            }
            synchronized (this) {
                violations++;
            }
            return null;
        }
    }

    /** Many workers that wait for one lock, and hand it on as often as the turn says. */
    private final class Waiting {
        private final Semaphore turns = new Semaphore(0);
        private final AtomicLong released = new AtomicLong();
        private final LinkedBlockingQueue<Object> moved = new LinkedBlockingQueue<>();

        Waiting(JsonNode turn) throws Exception {
            int crowd = Math.max(1, turn.path("clients").asInt());
            long workNanos = turn.path("work_us").asLong() * 1000;
            for (int i = 0; i < turn.path("locks").size(); i++) {
                Door door = door(i, i % crowd, turn);
                Thread t = new Thread(null, () -> stand(door, workNanos), "waiter " + i, 256 << 10);
                t.setDaemon(true);
                t.start();
            }
        }

        private void stand(Door door, long workNanos) {
            try {
                AutoCloseable release = door.enter();
                long got = System.nanoTime();
                long from = released.get();
                if (from != 0) {
                    moved.add(got - from);
                }
                turns.acquire();
                rest(workNanos);
                released.set(System.nanoTime());
                release.close();
            } catch (Exception e) {
                moved.add(e);
            }
        }

        ObjectNode pass(JsonNode turn) throws Exception {
            int count = turn.path("count").asInt();
            long before = processor();
            long start = System.nanoTime();
            long limit = start + GRACE_NANOS + (long) (turn.path("seconds").asDouble() * 1e9);
            turns.release(count);
            long[] took = new long[count];
            for (int i = 0; i < count; i++) {
                Object one = moved.poll(limit - System.nanoTime(), TimeUnit.NANOSECONDS);
                if (one == null) {
                    throw new IllegalStateException("only " + i + " of " + count + " hand-overs happened in time");
                }
                if (one instanceof Exception) {
                    throw (Exception) one;
                }
                took[i] = (Long) one;
            }
            ObjectNode result = JSON.createObjectNode().put("cycles", count).put("seconds", (System.nanoTime() - start) / 1e9);
            result.put("cpu_ms", (processor() - before) / 1e6);
            return spread(result, took);
        }
    }

    /** Work that does not need the processor. */
    private static void rest(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private static ObjectNode spread(ObjectNode result, long[] took) {
        if (took.length == 0) {
            return result;
        }
        Arrays.sort(took);
        return result.put("p50_us", took[took.length / 2] / 1e3).put("p99_us", took[took.length * 99 / 100] / 1e3);
    }

    private static long processor() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
