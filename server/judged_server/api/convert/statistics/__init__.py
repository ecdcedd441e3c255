"""The messages of StatisticsService, and of statistics in other replies."""
