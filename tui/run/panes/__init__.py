"""The logs of a run, side by side or merged: which, how many, what of them is shown, searched and copied."""
