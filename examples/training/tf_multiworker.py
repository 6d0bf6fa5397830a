"""MultiWorkerMirroredStrategy with a loop of its own: fits y = 3x + 1. TF_CONFIG says who the others are."""

import json
import os

import tensorflow as tf

STEPS, BATCH = 60, 64


def main() -> None:
    """Train on all workers at once."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    batch = BATCH * strategy.num_replicas_in_sync
    with strategy.scope():
        weight, bias = tf.Variable(0.0), tf.Variable(0.0)

    x = tf.random.stateless_uniform([4096, 1], seed=[0, 0])
    data = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(4096, seed=0).repeat().batch(batch)
    batches = iter(strategy.experimental_distribute_dataset(data))

    def on_replica(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((weight * x + bias - y) ** 2) / batch
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, tape.gradient(loss, [weight, bias]))
        for variable, gradient in zip([weight, bias], gradients, strict=True):
            variable.assign_sub(0.5 * gradient)
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        losses = strategy.run(on_replica, args=next(batches))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for number in range(1, STEPS + 1):
        loss = float(step())
        if number % 20 == 0:
            print(f"step {number} loss {loss:.5f}", flush=True)
    print(f"{task['type']} {task['index']}: y = {weight.numpy():.3f} x + {bias.numpy():.3f}", flush=True)


if __name__ == "__main__":
    main()
