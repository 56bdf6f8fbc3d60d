"""Objectives, optimizers, schedules and the loop."""
