"""ParameterServerStrategy: the chief hands out steps, workers take them, parameter servers hold the variables."""

import json
import os

import tensorflow as tf

STEPS, BATCH = 400, 64


def main() -> None:
    """Each task by its type, as TF_CONFIG says."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task["type"] == "chief":
        coordinate(resolver)
    else:
        serve(resolver)


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """A worker or a parameter server; it is ended from outside when the chief has ended."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    print(f"{resolver.task_type} {resolver.task_id} serves", flush=True)
    server.join()


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Hand out all steps, wait for them, say what was learned."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weight, bias = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        x = tf.random.uniform([BATCH, 1])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((weight * x + bias - (3 * x + 1)) ** 2)
        for variable, gradient in zip([weight, bias], tape.gradient(loss, [weight, bias]), strict=True):
            variable.assign_sub(0.2 * gradient)
        return loss

    for number in range(1, STEPS + 1):
        loss = coordinator.schedule(step)
        if number % 100 == 0:
            print(f"step {number} loss {loss.fetch():.5f}", flush=True)
    coordinator.join()
    print(f"y = {weight.numpy():.3f} x + {bias.numpy():.3f}", flush=True)


if __name__ == "__main__":
    main()
