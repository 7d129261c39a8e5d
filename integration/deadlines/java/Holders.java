import java.util.List;
import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryForever;

/**
 * Holds locks with Curator's InterProcessMutex, and waits for each of them: Holders SESSION_MS OTHERS PROXY... The holder of
 * lock i reaches ZooKeeper at proxy i only, its waiter at the others. What happens is a line: the number and a word.
 */
public final class Holders {
    private static final int PATIENT_MS = 60_000;

    private Holders() {}

    public static void main(String[] args) throws Exception {
        int session = Integer.parseInt(args[0]);
        List<String> proxies = Arrays.asList(args).subList(2, args.length);
        for (int i = 0; i < proxies.size(); i++) {
            int number = i;
            background(() -> hold(number, session, proxies.get(number), args[1]));
            Thread.sleep(session / 3 / proxies.size()); // their pings come at different times
        }
        while (System.in.read() >= 0) {
            // until the test closes it
        }
        Runtime.getRuntime().halt(0); // the servers expire the sessions
    }

    private static void hold(int number, int session, String proxy, String others) throws Exception {
        String path = "/peers/curator" + System.getProperty("round") + "-" + number;
        CuratorFramework holder = CuratorFrameworkFactory.newClient(proxy, session, session, new ExponentialBackoffRetry(1000, 3));
        holder.getConnectionStateListenable().addListener((client, state) -> say(number, state.name()));
        holder.start();
        new InterProcessMutex(holder, path).acquire();
        CuratorFramework waiter = CuratorFrameworkFactory.newClient(others, PATIENT_MS, PATIENT_MS, new RetryForever(20));
        waiter.start();
        InterProcessMutex next = new InterProcessMutex(waiter, path);
        background(() -> {
            while (next.getParticipantNodes().size() < 2) {
                Thread.sleep(20);
            }
            say(number, "QUEUED");
        });
        next.acquire();
        say(number, "GRANTED");
    }

    private static synchronized void say(int number, String what) {
        System.out.println(number + " " + what);
        System.out.flush();
    }

    interface Work {
        void run() throws Exception;
    }

    private static void background(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception e) {
                System.err.println(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
