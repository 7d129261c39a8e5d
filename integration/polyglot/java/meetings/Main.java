package meetings;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryForever;

/** Meets others with Curator's recipes: Main CONNECT PATH HOST THREADS KIND [NUMBER [ROUNDS]]. */
public final class Main {
    private Main() {}

    /** What one thread does. */
    interface Guest {
        void meet(Host host) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        background(Main::live);
        String path = args[1];
        int port = Integer.parseInt(args[2]);
        int threads = Integer.parseInt(args[3]);
        String kind = args[4];
        int number = args.length > 5 ? Integer.parseInt(args[5]) : 0;
        int rounds = args.length > 6 ? Integer.parseInt(args[6]) : 0;
        try (CuratorFramework client = CuratorFrameworkFactory.builder().connectString(args[0])
                .sessionTimeoutMs(20_000).connectionTimeoutMs(30_000).retryPolicy(new RetryForever(20)).build()) {
            client.start();
            client.blockUntilConnected();
            Guest guest = guest(client, kind, path, number, rounds);
            List<FutureTask<Void>> guests = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                FutureTask<Void> task = new FutureTask<>(() -> {
                    try (Host host = new Host(port)) {
                        guest.meet(host);
                    }
                    return null;
                });
                guests.add(task);
                background(task);
            }
            for (FutureTask<Void> task : guests) {
                task.get();
            }
        }
    }

    private static Guest guest(CuratorFramework client, String kind, String path, int number, int rounds) {
        switch (kind) {
            case "latch":
                return host -> latch(client, path, host);
            case "doublebarrier":
                return host -> doubleBarrier(client, path, number, rounds, host);
            case "barrier":
                return host -> barrier(client, path, host);
            case "count":
                return host -> count(client, path, number);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    /** Leads in each of its turns. */
    private static void latch(CuratorFramework client, String path, Host host) throws Exception {
        while (!host.ask("turn").equals("stop")) {
            try (LeaderLatch latch = new LeaderLatch(client, path, "java")) {
                latch.start();
                latch.await();
                host.ask("enter java");
                if (!latch.getLeader().getId().equals("java")) {
                    throw new IllegalStateException("the leader is " + latch.getLeader());
                }
                for (Participant other : latch.getParticipants()) {
                    if (!other.getId().equals("java") && !other.getId().equals("go")) {
                        throw new IllegalStateException("who is " + other + "?");
                    }
                }
                host.ask("leave");
            }
        }
    }

    /**
     * Begins each round together with the others, and ends it. Curator's leave() returns when one member is left inside,
     * whether that one is leaving or not (its list then has size 1): "away" says less than "out".
     */
    private static void doubleBarrier(CuratorFramework client, String path, int members, int rounds, Host host) throws Exception {
        for (int round = 0; round < rounds; round++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path + "-" + round, members);
            host.ask("arrive " + round);
            barrier.enter();
            host.ask("inside " + round);
            host.ask("leaving " + round);
            barrier.leave();
            host.ask("away " + round);
        }
    }

    /** Waits at a barrier, and puts up the next. */
    private static void barrier(CuratorFramework client, String path, Host host) throws Exception {
        host.ask("arrive 0");
        new DistributedBarrier(client, path).waitOnBarrier();
        host.ask("inside 0");
        new DistributedBarrier(client, path + "-next").setBarrier();
        host.ask("leaving 0");
    }

    /** Sets a shared count that is there. */
    private static void count(CuratorFramework client, String path, int number) throws Exception {
        try (SharedCount count = new SharedCount(client, path, 0)) {
            count.start();
            if (count.getCount() != number - 1) {
                throw new IllegalStateException("the count is " + count.getCount());
            }
            count.setCount(number);
        }
    }

    /** The line to the host. */
    private static final class Host implements AutoCloseable {
        private final Socket socket;
        private final BufferedReader in;
        private final PrintWriter out;

        Host(int port) throws Exception {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            out = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
        }

        String ask(String line) throws Exception {
            out.print(line + "\n");
            out.flush();
            String answer = in.readLine();
            if (answer == null) {
                throw new IllegalStateException("the host has left");
            }
            return answer;
        }

        @Override
        public void close() throws Exception {
            socket.close();
        }
    }

    private static void background(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }

    /** Nothing outlives the test: when it is gone, so is this program. */
    private static void live() {
        try {
            while (System.in.read() >= 0) {
                // nothing is said
            }
        } catch (java.io.IOException e) {
            // as good as the end
        }
        Runtime.getRuntime().halt(3);
    }
}
